"""Parts and partitions on a real Ray cluster of one node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline_tasks.cli.doctor import checks
from pipeline_tasks.core.engines import engine_of
from pipeline_tasks.core.engines.cluster import Node
from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.errors import InputError, TransientError, installed_with
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import NoParams, StepParams, step
from pipeline_tasks.core.store import LocalStore, open_store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from tests.core.ray_cluster import on_ray, one_node, use, use_this_machine
from tests.core.toy_steps import ITEMS, TOTALS, check_whole, latest, make, toy_list, toy_scale, toy_tally
from tests.stores import put

WORLD = {f"item{n}": n % 5 for n in range(6)} | {"unlucky": 13}


def run_chain(folder: Path) -> dict[str, bytes]:
    store = LocalStore(folder)
    put(store, PASSAGES, *([{"passage_id": f"p{n}", "text": f"flood {n % 3} river {n}"}] for n in range(4)))
    pairs = [
        {"query_id": f"q{n}", "query": f"river {n}", "positive_id": f"g{n}", "positive": "flood"} for n in range(4)
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    make(store, toy_list, rows=WORLD)
    make(store, toy_scale)
    make(store, toy_tally)
    make(store, rank_bm25, depth=3, shard_passages=3)
    return check_whole(store)


@on_ray
def test_one_node_gives_the_same_versions_and_bytes_as_this_machine(cluster, tmp_path, monkeypatch):
    found = run_chain(tmp_path / "ray")
    use_this_machine(monkeypatch)
    assert found == run_chain(tmp_path / "local")


@step(reads={"items": ITEMS}, writes=TOTALS, kind="partitioned", dataset="survivors")
def toy_survivor(inputs, params: NoParams, run) -> list[Part]:
    """One row, by a worker that is killed once."""
    (made,) = run.spread(killed_once, [Partition(values={"mark": str(run.store.root / "killed")})], final=True)
    return made


def killed_once(given: Partition, run: Run) -> list[pa.Table]:
    """The number of the process; the first one kills itself."""
    mark = Path(given.values["mark"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [TOTALS.table([{"total_id": "process", "value": os.getpid()}])]


@on_ray
def test_the_work_of_a_lost_worker_is_done_by_another(cluster, tmp_path):
    store = LocalStore(tmp_path)
    make(store, toy_list, rows=WORLD)
    make(store, toy_survivor)
    assert (tmp_path / "killed").exists()
    assert latest(store, "survivors").table()["value"].to_pylist() != [os.getpid()]


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster whose node is short of memory when an eighth of the machine's is taken beside what is taken now."""
    taken = {line.split(":")[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    limit = 1 - taken["MemAvailable"] / taken["MemTotal"] + 0.125
    with one_node(RAY_memory_usage_threshold=f"{limit:.3f}", RAY_memory_monitor_refresh_ms="100") as address:
        use(address, monkeypatch)
        yield


def places(store: S3Store, item: int) -> dict[str, str]:
    """Where what is fetched is kept."""
    found = settings()
    assert store.folder.parent == found.store_cache
    return {
        "CACHE": f"{found.cache}",
        "STORE_CACHE": f"{found.store_cache}",
        "STORE_CACHE_GIB": f"{found.store_cache_gib}",
    }


@on_ray
def test_a_node_keeps_what_it_fetches_where_its_own_settings_say(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    here, there = (
        {"CACHE": f"{tmp_path / name}", "STORE_CACHE": f"{tmp_path / name / 'fast'}", "STORE_CACHE_GIB": gib}
        for name, gib in (("here", "1.0"), ("there", "2.0"))
    )
    with one_node(**{f"FOUNDRY_{name}": value for name, value in there.items()}) as address:
        for name, value in here.items():
            monkeypatch.setenv(f"FOUNDRY_{name}", value)
        use(address, monkeypatch)
        store = open_store("s3://bucket/prefix")
        assert places(store, 0) == here
        with _engine("rank_bm25") as engine:
            ((_, found),) = engine.each(partial(places, store), [0])
    assert found == there


class Hunger(StepParams):
    """How many tries want too much."""

    hungry: int


@step(reads={"items": ITEMS}, writes=TOTALS, kind="partitioned", dataset="hungry", memory_gib=1)
def toy_hungry(inputs, params: Hunger, run) -> list[Part]:
    """One row, by a worker that wants more memory than there is, so many times."""
    values = {"tries": str(run.store.root / "tries"), "hungry": params.hungry}
    (made,) = run.spread(hungry, [Partition(values=values)], final=True)
    return made


toy_hungry = replace(toy_hungry, resources=replace(toy_hungry.resources, more_memory_gib=3))


def hungry(given: Partition, run: Run) -> list[pa.Table]:
    """GiB that the task of the last try was given; those before it take memory until they are ended."""
    import ray

    tries = Path(given.values["tries"])
    with tries.open("a") as file:
        print(ray.get_runtime_context().get_assigned_resources()["memory"] / 2**30, file=file)
    held = []
    while len(tries.read_text().split()) <= given.values["hungry"]:
        held.append(os.urandom(1 << 20) * 100)
    return [TOTALS.table([{"total_id": "tries", "value": len(tries.read_text().split())}])]


@on_ray
def test_a_task_out_of_memory_runs_once_more_with_what_is_declared(cramped, tmp_path):
    """By Ray's own tries it would run for ever."""
    store = LocalStore(tmp_path)
    make(store, toy_list, rows=WORLD)
    make(store, toy_hungry, hungry=1)
    assert (tmp_path / "tries").read_text().split() == ["1.0", "3.0"]
    (tmp_path / "tries").unlink()
    with pytest.raises(TransientError, match="with 1 GiB and then 3 GiB declared; give it more \\(more_memory_gib of"):
        make(store, toy_hungry, hungry=2)
    assert (tmp_path / "tries").read_text().split() == ["1.0", "3.0"]


@step(reads={"items": ITEMS}, writes=TOTALS, kind="map", dataset="refused")
def toy_refused(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """Nothing is good enough."""
    run.count("looked_at", rows.num_rows)
    raise InputError(f"{rows.num_rows} rows are refused")


@on_ray
def test_an_error_arrives_as_it_was_raised_with_what_was_counted(cluster, tmp_path):
    store = LocalStore(tmp_path)
    make(store, toy_list, rows={"a": 1})
    with pytest.raises(InputError, match="^1 rows are refused$") as told:
        make(store, toy_refused)
    assert told.value.__dict__["counters"]["looked_at"] == 1


@step(reads={"items": ITEMS}, writes=TOTALS, kind="map", dataset="huge", memory_gib=10_000)
def toy_huge(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """Wants more than any node has."""
    return TOTALS.table()


@on_ray
def test_what_no_node_has_is_refused_and_not_waited_for(cluster, tmp_path):
    store = LocalStore(tmp_path)
    make(store, toy_list, rows={"a": 1})
    with pytest.raises(InputError, match=r"toy_huge asks for 10000 GiB and 0 GPUs a task.*at most 8\.0 GiB, 0 GPUs"):
        make(store, toy_huge)


@on_ray
def test_doctor_shows_the_nodes(cluster, address):
    engine, node = (check for check in checks(settings()) if check.name.startswith(("engine", "node ")))
    assert (engine.ok, engine.found) == (True, "Ray, 1 node: 2 CPUs, 0 GPUs, 8.0 GiB")
    assert (node.name, node.found) == (f"node {address.partition(':')[0]}", "2 CPUs, 0 GPUs, 8.0 GiB, the head")


@on_ray
def test_doctor_refuses_a_cluster_that_computes_nothing(cluster, monkeypatch):
    alone = Node("a1", "10.0.0.1", is_head=True, cpus=0, gpus=0, gpu_kind="", memory_bytes=1 << 30)
    monkeypatch.setattr("pipeline_tasks.core.engines.cluster.nodes", lambda ray: [alone])
    engine = next(check for check in checks(settings()) if check.name == "engine")
    assert (engine.ok, engine.needed) == (False, True)
    assert engine.found == "Ray, 1 node: 0 CPUs, 0 GPUs, 1.0 GiB: add a node that offers a CPU"


def test_cards_are_told_by_their_kind():
    has = {"CPU": 8.0, "GPU": 2.0, "memory": 2.0**33, "accelerator_type:H100": 1.0, "node:10.0.0.2": 1.0}
    assert Node.of({"NodeID": "b2", "NodeManagerAddress": "10.0.0.2", "Resources": has}) == Node(
        "b2", "10.0.0.2", is_head=False, cpus=8, gpus=2, gpu_kind="H100", memory_bytes=1 << 33
    )


def test_without_a_cluster_it_is_said_what_to_do(tmp_path, monkeypatch):
    use("127.0.0.1:1", monkeypatch)
    store = LocalStore(tmp_path)
    make(store, toy_list, rows={"a": 1})
    said = (TransientError, "start one") if find_spec("ray") else (InputError, r"pip install .*\.\[ray\]")
    with pytest.raises(said[0], match=said[1]):
        make(store, toy_scale)
    engine = next(check for check in checks(settings()) if check.name == "engine")
    assert (engine.ok, engine.needed) == (False, True)
    assert ("start one" if find_spec("ray") else installed_with("ray")) in engine.found


def test_what_is_one_piece_or_pays_a_service_stays_on_this_machine(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    for name in ("write_pairs", "unify", "evaluate_retriever"):
        assert isinstance(_engine(name), Local)
    for name in ("rank_bm25", "chunk_passages", "mutual_agreement", "finetune"):
        assert not isinstance(_engine(name), Local)


def test_an_encoder_computes_on_the_cluster_unless_an_endpoint_is_asked(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    monkeypatch.setenv("FOUNDRY_SERVED_MODELS", "all-minilm-l6-v2")
    assert isinstance(_engine("embed_passages", model="all-minilm-l6-v2"), Local)
    assert not isinstance(_engine("embed_passages", model="bge-small-en-v1.5"), Local)


def _engine(name: str, **params: object) -> Any:
    made = get_step(name)
    return engine_of(made, made.parse(params), 1)
