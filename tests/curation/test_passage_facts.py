from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.id_table import HashTable
from pipeline_tasks.curation.passage_facts import Facts


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path)


def shard(store: LocalStore, *rows: tuple[str, int, int]) -> object:
    """Ids with hashes and splits; the row is the place."""
    ids, hashes, splits = zip(*rows, strict=True)
    n = len(rows)
    kinds = pa.uint64(), pa.int8(), pa.int32()
    hashed, split, row = (pa.array(v, kind) for v, kind in zip((hashes, splits, range(n)), kinds, strict=True))
    columns = {"passage_id": pa.array(ids), "hash": hashed, "split": split, "text": hashed, "part": hashed, "row": row}
    return write_rows(store, pa.table(columns))


def test_of_an_id_that_comes_twice_the_first_passage_counts(store):
    shards = [shard(store, ("a", 1, 0), ("b", 2, 1), ("a", 1, 2)), shard(store, ("b", 2, 2), ("c", 3, 2), ("c", 3, 0))]
    table, numbers = HashTable.of(np.array([3, 1, 3, 9, 2], np.uint64))
    assert numbers.tolist() == [0, 1, 0, 2, 3]
    found = Facts.look_up(store, shards, table)
    assert found.ids.to_pylist() == ["c", "a", None, "b"]
    assert found.splits.tolist() == [2, 0, -1, 1] and found.rows.tolist()[:2] == [1, 0]


@pytest.mark.parametrize("apart", [False, True])
def test_two_ids_of_one_hash_are_told(store, apart):
    rows = ("a", 7, 0), ("other", 7, 0)
    shards = [shard(store, row) for row in rows] if apart else [shard(store, *rows)]
    with pytest.raises(InputError, match="the ids a and other have the same hash"):
        Facts.look_up(store, shards, HashTable.of(np.array([7], np.uint64))[0])
