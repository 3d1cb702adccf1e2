"""Parts and partitions on a real Ray cluster of one node."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.cli.upkeep import checks
from pipeline_tasks.core.engines import engine_of
from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import NoParams, StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from tests.core.toy_steps import ITEMS, TOTALS, check_whole, latest, make, toy_list, toy_scale, toy_tally
from tests.stores import put

ROOT = Path(__file__).parents[2]
WORLD = {f"item{n}": n % 5 for n in range(6)} | {"unlucky": 13}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
CLUSTER = """
import sys, ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _memory=8 << 30)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
on_ray = pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: pip install retriever-foundry[ray]")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


@contextmanager
def one_node(**variables: str) -> Iterator[str]:
    """A cluster of one node, which ends with its parent."""
    env = os.environ | TOKEN | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"} | variables
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    lines = (line.strip() for line in process.stdout)
    yield next(line for line in lines if line.rpartition(":")[2].isdigit())
    process.stdin.close()
    process.wait()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with one_node() as found:
        yield found


@pytest.fixture
def cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(address, monkeypatch)


def use(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)


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
    monkeypatch.setenv("FOUNDRY_ENGINE", "local")
    settings.cache_clear()
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


class Hunger(StepParams):
    """How many tries want too much."""

    hungry: int


@step(reads={"items": ITEMS}, writes=TOTALS, kind="partitioned", dataset="hungry", memory_gib=1, more_memory_gib=3)
def toy_hungry(inputs, params: Hunger, run) -> list[Part]:
    """One row, by a worker that wants more memory than there is, so many times."""
    values = {"tries": str(run.store.root / "tries"), "hungry": params.hungry}
    (made,) = run.spread(hungry, [Partition(values=values)], final=True)
    return made


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
def test_doctor_shows_the_nodes(cluster):
    (engine,) = (check for check in checks(settings()) if check.name == "engine")
    assert (engine.ok, engine.found) == (True, "Ray, 1 nodes: 2 CPUs, 0 GPUs, 8.0 GiB")


def test_without_a_cluster_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    store = LocalStore(tmp_path)
    make(store, toy_list, rows={"a": 1})
    said = (TransientError, "start one") if find_spec("ray") else (InputError, r"install retriever-foundry\[ray\]")
    with pytest.raises(said[0], match=said[1]):
        make(store, toy_scale)


def test_what_is_one_piece_or_pays_a_service_stays_on_this_machine(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    here = {name for name in ("write_pairs", "mutual_agreement", "finetune") if isinstance(_engine(name), Local)}
    assert here == {"write_pairs", "mutual_agreement", "finetune"}
    assert not isinstance(_engine("rank_bm25"), Local) and not isinstance(_engine("chunk_passages"), Local)


def _engine(name: str) -> object:
    return engine_of(get_step(name), 1)
