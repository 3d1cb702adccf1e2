"""Actors of a real Ray cluster: what they keep from part to part, and what is done again where one is lost."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from pipeline_tasks.core.engines import actors, engine_of
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.core.store import LocalStore
from tests.core.ray_cluster import head_with_clients, on_ray, use, use_this_machine
from tests.core.toy_steps import ITEMS, TOTALS, check_whole, latest, make, toy_list

pytestmark = on_ray
WORLD = {f"item{n:02}": n for n in range(12)}
N_CPUS = 2


@lru_cache(maxsize=1)
def model(notes: Path) -> int:
    """Stands for an encoder: what it is to load is noted with the process that does."""
    note(notes / "loads", os.getpid())
    return 3


def note(path: Path, what: object) -> None:
    with path.open("a") as file:
        print(what, file=file)


def noted(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


class EncodeParams(StepParams):
    """Which item kills its process the first time."""

    deadly: str = tuning("")


@step(reads={"items": ITEMS}, writes=TOTALS, kind="map", dataset="encoded")
def toy_encode(rows: pa.Table, params: EncodeParams, run: Run) -> pa.Table:
    """Values times the model."""
    notes = run.store.folder
    loaded = model(notes)
    for item in rows["item_id"].to_pylist():
        note(notes / "begun", item)
        if item == params.deadly and noted(notes / "begun").count(item) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return TOTALS.table([{"total_id": row["item_id"], "value": row["value"] * loaded} for row in rows.to_pylist()])


@step(reads={"items": ITEMS}, writes=TOTALS, kind="partitioned", dataset="rounds")
def toy_rounds(inputs: Inputs, params: EncodeParams, run: PartitionedRun) -> Iterator[Part]:
    """Two rounds of four partitions."""
    for name in ("first", "second"):
        for (part,) in run.spread(of_round, [Partition(values={"of": f"{name}-{n}"}) for n in range(4)], final=True):
            yield part


def of_round(given: Partition, run: Run) -> list[pa.Table]:
    """One row, by a model."""
    return [TOTALS.table([{"total_id": given.values["of"], "value": model(run.store.folder)}])]


def made_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    use_this_machine(monkeypatch)
    store = LocalStore(folder)
    make(store, toy_list, rows=WORLD, part_rows=1)
    make(store, toy_encode)
    return check_whole(store)


def test_a_model_is_loaded_once_by_each_actor_and_not_for_each_part(cluster, tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "ray")
    make(store, toy_list, rows=WORLD, part_rows=1)
    make(store, toy_encode)
    loads = noted(store.folder / "loads")
    assert len(latest(store, "encoded").manifest.parts) == len(WORLD)
    assert 1 <= len(loads) <= N_CPUS and len(set(loads)) == len(loads)
    assert check_whole(store) == made_here(tmp_path / "local", monkeypatch)


def test_a_killed_actor_repeats_its_part_alone(cluster, tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "ray")
    make(store, toy_list, rows=WORLD, part_rows=1)
    make(store, toy_encode, deadly="item05")
    assert Counter(noted(store.folder / "begun")) == Counter(WORLD.keys()) + Counter(["item05"])
    assert len(noted(store.folder / "loads")) <= N_CPUS + 1
    assert check_whole(store) == made_here(tmp_path / "local", monkeypatch)


def test_actors_stay_for_the_next_round(cluster, tmp_path):
    store = LocalStore(tmp_path)
    make(store, toy_list, rows=WORLD)
    make(store, toy_rounds)
    assert len(latest(store, "rounds").manifest.parts) == 8
    assert len(noted(tmp_path / "loads")) <= N_CPUS


def test_an_actor_makes_room_once_it_was_kept_for_long(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(actors, "_KEPT_S", -1)
    store = LocalStore(tmp_path / "ray")
    make(store, toy_list, rows=dict(list(WORLD.items())[:4]), part_rows=1)
    make(store, toy_encode)
    assert len(set(noted(store.folder / "loads"))) == 4


def test_an_actor_without_cards_sees_none_whoever_has_them(cluster):
    with engine_of(toy_encode, toy_encode.parse({}), 1) as engine:
        assert list(engine.each(os.getenv, ["CUDA_VISIBLE_DEVICES"])) == [(0, "")]


def test_a_node_with_another_version_of_the_package_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(actors, "__version__", "0.0.1")
    store = LocalStore(tmp_path)
    make(store, toy_list, rows=WORLD)
    with pytest.raises(InputError, match=r"has retriever-foundry [\d.]+.*, and this is 0\.0\.1"):
        make(store, toy_encode)


def test_a_machine_that_is_no_node_computes_as_a_client(tmp_path, monkeypatch):
    """As a step in a container or a pod does."""
    with TemporaryDirectory(prefix="ray") as folder, head_with_clients(Path(folder)) as address:
        use(address, monkeypatch)
        store = LocalStore(tmp_path / "ray")
        make(store, toy_list, rows=WORLD, part_rows=1)
        make(store, toy_encode, deadly="item05")
    assert Counter(noted(store.folder / "begun")) == Counter(WORLD.keys()) + Counter(["item05"])
    assert check_whole(store) == made_here(tmp_path / "local", monkeypatch)


def test_a_cluster_whose_head_is_lost_is_no_bug_but_something_to_try_again(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "1")
    with TemporaryDirectory(prefix="ray") as folder, ExitStack() as head:
        use(head.enter_context(head_with_clients(Path(folder))), monkeypatch)
        with engine_of(toy_encode, toy_encode.parse({}), 1) as engine:
            done = engine.each(abs, [-1, -2])
            assert next(done)[1] in (1, 2)
            head.close()
            with pytest.raises(TransientError, match="the Ray cluster was lost while it did toy_encode; run it again"):
                list(engine.each(abs, [-3]))
            with pytest.raises(TransientError, match="the Ray cluster was lost while it did toy_encode; run it again"):
                engine.tidy(abs, -4)
