"""What a page shows a few rows of is found in little memory, however many there are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.lineage.detail import detail
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.story import find_queries
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit
from pipeline_tasks.datasets import PAIRS, URLS
from tests.stores import go, put

MEMORY_MIB = 48
N = 120_000
REFRESHES = 150
REFRESHED = {
    "urls": ("previous",),
    "downloads": ("previous", "urls"),
    "documents": ("downloads",),
    "held_out": ("previous", "documents"),
    "chunks": ("documents", "held_out"),
    "passages": ("chunks",),
}
"""What a refresh of the corpus makes, and from what."""


@step(reads={}, writes=URLS, kind="reduce")
def toy_refusals(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """Refuses everything."""
    for i in range(N):
        run.reject(f"{i:06d}", "too long", "word " * 100)
    return URLS.table()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setattr(import_module("pipeline_tasks.core.lineage.query"), "question_mib", lambda: MEMORY_MIB)
    return LocalStore(tmp_path / "store")


def test_the_first_queries_of_many_are_found_once_each(small: LocalStore):
    rows = [
        {"query_id": f"q{i:06d}", "intent": "qa", "query": f"what of {i}? {'word ' * 40}", "split": "train"}
        for i in range(N)
    ]
    for dataset in ("mtp/dm", "mtp/combined", "mtp"):
        put(small, PAIRS, rows, dataset=dataset)
    reader = Reader(small)
    assert [row["query_id"] for row in find_queries(reader, "WHAT OF")] == [f"q{i:06d}" for i in range(20)]
    assert [row["query_id"] for row in find_queries(reader, "q000777")] == ["q000777"]


def test_the_first_refusals_of_many_are_shown(small: LocalStore):
    ref = go(small, toy_refusals).ref
    (told,) = detail(Reader(small), Ref.parse(str(ref)))["rejects"]
    assert (told["reason"], told["n"]) == ("too long", N)
    assert [row["row_id"] for row in told["samples"]] == [f"{i:06d}" for i in range(5)]


def _refreshed(store: LocalStore, times: int) -> Ref:
    """The passages of so many refreshes, of which only the lineage is there."""
    for i in range(1, times + 1):
        for dataset, sources in REFRESHED.items():
            read = {name: f"{dataset}@{i - 1:016x}" if name == "previous" else f"{name}@{i:016x}" for name in sources}
            inputs = {name: [ref] for name, ref in read.items() if i > 1 or name != "previous"}
            made = {"dataset": dataset, "id": f"{i:016x}", "step": "toy", "code_version": "1", "inputs": inputs}
            manifest = Manifest(**made, rows_schema="", key="", params={}, rows=0, parts=[])
            commit(store, manifest)
    return manifest.ref


def test_what_stands_behind_a_version_is_found_after_any_number_of_refreshes(small: LocalStore):
    ref = _refreshed(small, REFRESHES)
    assert detail(Reader(small), ref)["cost"]["n_responses"] == 0
    behind = query(small, "FROM ancestors_of(?) ORDER BY depth, dataset", [str(ref)]).to_pylist()
    depths = {"chunks": 1, "documents": 2, "held_out": 2, "downloads": 3, "urls": 4}
    assert [(row["dataset"], row["version"], row["depth"]) for row in behind] == [
        (name, ref.version, depth) for name, depth in depths.items()
    ], "each once, and of the same refresh"
    of_all = "SELECT count(*) AS n, max(depth) AS depth FROM ancestors WHERE descendant_dataset = 'passages'"
    assert query(small, of_all).to_pylist() == [{"n": 5 * REFRESHES, "depth": 4}]
