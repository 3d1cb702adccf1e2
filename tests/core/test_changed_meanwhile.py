"""What a step reads beside its inputs, such as prompts or a file of queries, may change while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import ITEMS, make, rows_of, toy_list

BEFORE, AFTER = "before", "after"


class BesideParams(StepParams):
    """A file is read, and someone else writes it once this many rows were worked on."""

    file: str
    changed_at: int = 2

    def identity(self) -> dict[str, Any]:
        """What the file says, wherever it lies."""
        return {"says": Path(self.file).read_text("utf-8")}

    def work(self, rows: pa.Table) -> pa.Table:
        """The rows, after which the file may be another."""
        if rows["value"].to_pylist()[-1] == self.changed_at:
            Path(self.file).write_text(AFTER, "utf-8")
        return rows


@step(reads={"items": From(ITEMS)}, writes=ITEMS, kind="map", dataset="mapped", version="1")
def toy_map(rows: pa.Table, params: BesideParams, run: Run) -> pa.Table:
    """The rows."""
    return params.work(rows)


@step(reads={"items": From(ITEMS)}, writes=ITEMS, kind="reduce", dataset="reduced", version="1")
def toy_reduce(inputs: Inputs, params: BesideParams, run: Run) -> pa.Table:
    """The rows; a checkpoint is left on the way."""
    checkpoint = run.scratch / "checkpoint"
    run.count("went_on", checkpoint.exists())
    checkpoint.touch()
    return params.work(inputs["items"].table())


@step(reads={"items": From(ITEMS)}, writes=ITEMS, kind="partitioned", dataset="partitioned", version="1")
def toy_partitioned(inputs: Inputs, params: BesideParams, run: PartitionedRun) -> Iterator[Part]:
    """The rows."""
    values = inputs["items"].table()["value"].to_pylist()
    given = [Partition(values={"value": value} | params.identity()) for value in values]
    for parts in run.spread(one_row, given, final=True):
        yield from parts


def one_row(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The row of a value."""
    assert run.job and isinstance(run.job.params, BesideParams)
    value = given.values["value"]
    yield run.job.params.work(ITEMS.conform(pa.table({"item_id": [f"item{value}"], "value": [value]})))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Two parts of two rows."""
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"item1": 1, "item2": 2, "item3": 3, "item4": 4})
    return store


@pytest.mark.parametrize(
    ("toy", "kept"), [(toy_map, 1), (toy_reduce, 1), (toy_partitioned, 3)], ids=["map", "reduce", "partitioned"]
)
def test_nothing_is_kept_of_what_may_be_mixed(store, tmp_path, toy, kept):
    beside = tmp_path / "beside"
    beside.write_text(BEFORE)
    given = {"file": str(beside), "changed_at": 4}
    told = "says changed while it ran; nothing mixed was kept; put it back to go on from what was made"
    with pytest.raises(InputError, match=f"{toy.name}: {told}"):
        make(store, toy, **given)
    assert not list(store.keys(f"versions/{toy.output(toy.parse(given))}")), "no version"
    after = make(store, toy, **given)
    assert not after.reused and len(rows_of(store, after.ref.dataset)) == 4
    beside.write_text(BEFORE)
    restored = make(store, toy, file=str(beside), changed_at=0)
    assert restored.ref != after.ref
    found = (restored.counters[name] for name in ("parts_reused", "partitions_reused", "went_on"))
    assert sum(found) == kept, "what was whole before"


def test_nothing_is_kept_once_a_file_is_gone(store, tmp_path, monkeypatch):
    beside = tmp_path / "beside"
    beside.write_text(BEFORE)
    monkeypatch.setattr(BesideParams, "work", lambda params, rows: beside.unlink() or rows)
    with pytest.raises(InputError, match="toy_reduce: a file .* is gone since; .* run it again"):
        make(store, toy_reduce, file=str(beside))
