"""A step that several nodes of a real Ray cluster do together, an actor on each."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from pipeline_tasks.core.engines import engine_of
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.team import PartDone, member
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, step
from tests.core.ray_cluster import ROOM, on_ray, several_nodes
from tests.core.toy_steps import ITEMS, latest, make

pytestmark = pytest.mark.usefixtures("items")

log = logging.getLogger(__name__)
N = 2


class TeamParams(StepParams):
    """How it goes."""

    device: Literal["cpu", "cuda"] = "cpu"
    fate: Literal["fine", "other_killed", "other_waits", "other_fails", "alone"] = "fine"


@step(reads={"items": ITEMS}, writes=None, kind="reduce", dataset="model/team", image="gpu", resumes=True)
def toy_team(inputs: Inputs, params: TeamParams, run: Run) -> Path:
    """A file in which all nodes are told; they wait for each other by files of the store's folder."""
    here, n_rows = member(), inputs["items"].manifest.rows
    tries = run.scratch / "tries"
    first = not tries.exists()
    with tries.open("a") as file:
        file.write("once\n")
    log.info("node %d of %d, %s", here.rank, here.count, "at first" if first else "again")
    if params.fate == "alone":
        return run.scratch
    if params.fate == "other_killed" and first and not here.leads:
        os.kill(os.getpid(), signal.SIGKILL)
    if params.fate == "other_waits" and first and not here.leads:
        (run.store.folder / "waits").touch()
        time.sleep(600)
    if params.fate == "other_fails":
        if here.leads:
            raise RuntimeError("the connection was closed by a peer")
        time.sleep(1)
        raise InputError("the second node has no weights: fetch them")
    meeting = run.store.folder / "meeting"
    meeting.mkdir(exist_ok=True)
    (meeting / f"{here.rank}-{run.seed}-{n_rows}").touch()
    while len(list(meeting.iterdir())) < here.count:
        time.sleep(0.05)
    if not here.leads:
        raise PartDone
    run.count("tries", len(tries.read_text().split()))
    out = run.scratch / "model"
    out.mkdir(exist_ok=True)
    (out / "weights").write_text(" ".join(sorted(path.name for path in meeting.iterdir())))
    return out


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes, and a head that computes nothing."""
    with pytest.MonkeyPatch.context() as patch, several_nodes(N, patch) as found:
        yield found


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the operator's file ask for so many nodes, once the items are made."""

    def write(n: int) -> None:
        path = tmp_path / "resources.toml"
        path.write_text(f"[default]\nnodes = {n}\n")
        monkeypatch.setenv("FOUNDRY_RESOURCES", str(path))
        settings.cache_clear()

    return write


@on_ray
def test_each_node_calls_the_body_and_the_first_gives_the_version(nodes, store, ask, caplog):
    ask(N)
    with caplog.at_level(logging.INFO):
        made = make(store, toy_team)
    (part,) = latest(store, "model/team").manifest.parts
    told = store.local_path(part.key).read_text().split()
    assert [one.partition("-")[0] for one in told] == ["0", "1"]
    assert len({one.partition("-")[2] for one in told}) == 1, "they have one seed and the same rows"
    assert made.counters["tries"] == 1
    assert [r.getMessage() for r in caplog.records if r.name == __name__] == ["node 0 of 2, at first"]
    assert not list(store.scratches.iterdir()), "no node leaves anything"


@on_ray
def test_all_begin_again_where_one_is_killed(nodes, store, ask, caplog):
    ask(N)
    with caplog.at_level(logging.INFO):
        made = make(store, toy_team, fate="other_killed")
    assert made.counters["tries"] == 2, "the leader found what it had left"
    said = [r.getMessage() for r in caplog.records if r.name == __name__]
    assert said == ["node 0 of 2, at first", "node 0 of 2, again"]
    assert "lost a task of toy_team; it runs again" in caplog.text


@on_ray
def test_the_error_that_is_told_is_the_cause_and_not_what_followed_from_it(nodes, store, ask):
    ask(N)
    with pytest.raises(InputError, match="^the second node has no weights: fetch them$"):
        make(store, toy_team, fate="other_fails")


@on_ray
def test_a_step_that_shares_nothing_is_refused(nodes, store, ask):
    ask(N)
    with pytest.raises(InputError, match="^toy_team does not share its work with other nodes: leave nodes out"):
        make(store, toy_team, fate="alone")


@on_ray
def test_more_nodes_than_there_are_or_with_more_than_they_have_are_refused(nodes, store, ask):
    ask(N + 1)
    said = "toy_team asks for 2 GiB and 0 GPUs a task on 3 nodes at once, and 2 nodes of the Ray cluster have both"
    with pytest.raises(InputError, match=said):
        make(store, toy_team)
    ask(N)
    with pytest.raises(InputError, match="and 1 GPUs a task on 2 nodes at once, and no node of the Ray cluster has"):
        make(store, toy_team, device="cuda")


def left_on(told: Path, item: str) -> float:
    """Stands for the time of a checkpoint, which the node has that is told."""
    return float(node_of(item) == told.read_text())


def node_of(item: str) -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


@on_ray
@pytest.mark.parametrize("n", [1, N], ids=["one node", "several"])
def test_the_node_that_has_the_checkpoint_goes_on_with_it(nodes, ask, tmp_path, n):
    ask(n)
    there = [node.node_id for node in nodes.worker_nodes]
    assert len(there) == N
    for chosen in (*there, *reversed(there)):
        (tmp_path / "told").write_text(chosen)
        with engine_of(toy_team, toy_team.parse({}), 1, partial(left_on, tmp_path / "told")) as engine:
            assert list(engine.each(node_of, ["item"])) == [(0, chosen)]


@on_ray
def test_there_is_nobody_to_tidy_up_before_anything_was_made(nodes, ask):
    ask(N)
    with engine_of(toy_team, toy_team.parse({}), 1) as engine:
        with pytest.raises(TransientError, match="no process of toy_team is left"):
            engine.tidy(print, "never")


def test_several_nodes_without_a_cluster_are_refused(ask, monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "local")
    ask(N)
    with pytest.raises(InputError, match=r"toy_team asks for 2 nodes \(FOUNDRY_RESOURCES\), which a Ray cluster alone"):
        engine_of(toy_team, toy_team.parse({}), 1)


@on_ray
def test_a_node_that_is_lost_is_waited_for_where_no_other_has_its_room(store, ask, monkeypatch):
    """As where a pod is replaced, in a cluster that has no more nodes than the training wants."""
    with several_nodes(N, monkeypatch) as cluster:
        ask(N)
        with ThreadPoolExecutor() as beside:
            made = beside.submit(make, store, toy_team, fate="other_waits")
            while not (store.folder / "waits").exists():
                assert not made.done(), made.result()
                time.sleep(0.05)
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            time.sleep(3)
            cluster.add_node(num_cpus=1, node_ip_address="127.0.0.9", **ROOM)
            assert made.result(timeout=120).counters["tries"] == 2
