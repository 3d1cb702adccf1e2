"""A step that trains is one piece of work, which a node of a real Ray cluster does."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest

from pipeline_tasks.core.engines import actors, engine_name, engine_of
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.headway import last_left
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.core.store import LocalStore
from tests.core.ray_cluster import head_with_clients, on_ray, use, use_this_machine
from tests.core.toy_steps import ITEMS, check_whole, latest, make, toy_list

log = logging.getLogger(__name__)


class TrainParams(StepParams):
    """What trains, and how it goes."""

    device: Literal["cpu", "cuda"] = "cpu"
    deadly: bool = False


@step(reads={"items": ITEMS}, writes=None, kind="reduce", dataset="model/toy", image="gpu", resumes=True)
def toy_train(inputs: Inputs, params: TrainParams, run: Run) -> Path:
    """A file; the first process leaves a checkpoint and kills itself, where it is deadly."""
    checkpoint = run.scratch / "checkpoint"
    resumed = checkpoint.exists()
    run.count("resumed", int(resumed))
    checkpoint.write_text("half way")
    log.info("step 1 of 2, %s", "again" if resumed else "at first")
    if params.deadly and not resumed:
        os.kill(os.getpid(), signal.SIGKILL)
    if not params.deadly and (run.store.folder / "refuse").exists():
        run.count("looked_at", 2)
        raise InputError("the second step is refused")
    for row in inputs["items"].table().to_pylist():
        run.reject(row["item_id"], "not_learned")
    (run.store.folder / "process").write_text(json.dumps({"pid": os.getpid(), "cards": _cards()}))
    out = run.scratch / "model"
    out.mkdir(exist_ok=True)
    (out / "weights").write_text(f"of {run.seed}")
    log.info("step 2 of 2")
    return out


def _cards() -> list[str]:
    """What Ray gave this process; nothing where it is none of Ray's."""
    import ray

    return ray.get_gpu_ids() if ray.is_initialized() else []


@on_ray
def test_it_ends_in_the_same_version_and_tells_its_lines_here(cluster, items, store, tmp_path, monkeypatch, caplog):
    with caplog.at_level(logging.INFO):
        made = make(store, toy_train)
    assert made.counters["rows_rejected"] == 2 and not made.counters["resumed"]
    process = json.loads((store.folder / "process").read_text())
    assert process["pid"] != os.getpid()
    assert [(r.name, r.getMessage()) for r in caplog.records if r.name == __name__] == [
        (__name__, "step 1 of 2, at first"),
        (__name__, "step 2 of 2"),
    ]
    assert not list(store.scratches.iterdir())
    use_this_machine(monkeypatch)
    here = LocalStore(tmp_path / "here")
    make(here, toy_list, rows={"a": 1, "b": 2})
    make(here, toy_train)
    assert check_whole(store) == check_whole(here)
    assert json.loads((here.folder / "process").read_text())["pid"] == os.getpid()


@on_ray
def test_a_machine_that_is_no_node_has_it_done_as_a_client_and_hears_it(items, store, monkeypatch, caplog):
    """As a step in a container or a pod does."""
    with TemporaryDirectory(prefix="ray") as folder, head_with_clients(Path(folder)) as address:
        use(address, monkeypatch)
        with caplog.at_level(logging.INFO):
            made = make(store, toy_train, deadly=True)
    assert made.counters["resumed"] == 1
    said = [record.getMessage() for record in caplog.records if record.name == __name__]
    assert said[-2:] == ["step 1 of 2, again", "step 2 of 2"]
    assert not list(store.scratches.iterdir())


@on_ray
def test_one_that_is_killed_goes_on_from_its_checkpoint(cluster, items, store, caplog):
    with caplog.at_level(logging.INFO):
        made = make(store, toy_train, deadly=True)
    assert made.counters["resumed"] == 1
    said = [record.getMessage() for record in caplog.records if record.name == __name__]
    assert said[-2:] == ["step 1 of 2, again", "step 2 of 2"]
    assert latest(store, "model/toy").manifest.parts[0].name == "weights"


@on_ray
def test_an_error_arrives_with_what_was_counted_and_the_checkpoint_stays(cluster, items, store):
    (store.folder / "refuse").touch()
    with pytest.raises(InputError, match="^the second step is refused$") as told:
        make(store, toy_train)
    assert told.value.__dict__["counters"]["looked_at"] == 2
    assert [path.read_text() for path in store.scratches.rglob("checkpoint")] == ["half way"]


@on_ray
def test_a_training_on_a_card_asks_for_a_node_that_has_one(cluster, items, store):
    with pytest.raises(InputError, match=r"toy_train asks for 2 GiB and 1 GPUs a task, and no node"):
        make(store, toy_train, device="cuda")


def name_process(path: Path) -> int:
    path.write_text(str(os.getpid()))
    return os.getpid()


@on_ray
def test_what_is_left_is_tidied_by_the_actor_that_left_it_or_by_none(cluster, tmp_path, monkeypatch):
    """However long it was kept; and no other is started for it, which might wait for ever."""
    monkeypatch.setattr(actors, "_KEPT_S", -1)
    with engine_of(toy_train, toy_train.parse({}), 1) as engine:
        ((_, trained),) = engine.each(name_process, [tmp_path / "trained"])
        engine.tidy(name_process, tmp_path / "tidied")
        assert int((tmp_path / "tidied").read_text()) == trained != os.getpid()
        os.kill(trained, signal.SIGKILL)
        with pytest.raises(TransientError, match="toy_train on the Ray cluster did not tidy up"):
            engine.tidy(name_process, tmp_path / "late")
    with engine_of(toy_train, toy_train.parse({}), 1) as engine:
        with pytest.raises(TransientError, match="no process of toy_train is left"):
            engine.tidy(name_process, tmp_path / "never")
    assert not (tmp_path / "late").exists() and not (tmp_path / "never").exists()


def test_a_step_over_whole_datasets_that_trains_nothing_stays_here(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    assert engine_name(toy_list, toy_list.parse({"rows": {}})) == "local"
    assert engine_name(toy_train, toy_train.parse({})) == "ray"


def test_what_is_left_of_work_tells_when_it_was_last_gone_on_with(store):
    assert last_left(store, "work") == 0
    folder = store.scratch("work") / "tokens"
    folder.mkdir()
    assert last_left(store, "work") == 0, "a folder alone is nothing to go on from"
    for name, seconds in (("first", 50), ("last", 70), ("second", 60)):
        (folder / name).touch()
        os.utime(folder / name, (seconds, seconds))
    used_today = store.scratch("elsewhere") / "weights"
    used_today.touch()
    (folder / "init").symlink_to(used_today)
    assert last_left(store, "work") == 70
    assert last_left(store, "other") == 0
