"""What an erasure does to one table."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.erasure.rows import Reach, mentions
from pipeline_tasks.core.erasure.search import holds
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import ALL, LABELLED, RANKINGS, TRIPLETS

KEYS = frozenset(schema.key for schema in ALL)
A, B, C = (short_id(name) for name in "abc")
TEXTS = pa.list_(pa.string())


@pytest.mark.parametrize(
    ("name", "values", "kind", "found"),
    [
        ("passage_ids", [[B], None, [C, A]], TEXTS, True),
        ("passage_ids", [[B], None, [C, None], []], TEXTS, False),
        ("passage_ids", [[], None], TEXTS, False),
        ("passages", [[A]], TEXTS, False),
        ("passage_ids", [[[B], [A]]], pa.list_(TEXTS), True),
        ("passage_ids", [[B], [A]], pa.list_(pa.dictionary(pa.int32(), pa.string())), True),
        ("passage_ids", [[1], [2]], pa.list_(pa.int32()), False),
        ("votes", [[{"model": A, "passage_ids": [B]}, None, {"model": "m", "passage_ids": None}]], None, False),
        ("votes", [[{"passage_ids": [B]}, None], None, [{"model": "m", "passage_ids": [B, A]}]], None, True),
        ("scores", [[(A, 1.0)]], pa.map_(pa.string(), pa.float64()), False),
    ],
)  # fmt: skip
def test_ids_are_found_in_lists_of_ids_however_deep_and_nowhere_else(name, values, kind, found):
    table = pa.table({name: pa.array(values, kind or LABELLED.arrow.field("votes").type)})
    assert mentions(name, table[name], {A, "x"}) is found
    assert mentions(name, table[name].filter(pa.array([False] * len(table))), {A}) is False


def peak_of(work: Callable[[], object]) -> int:
    """Bytes of Python's objects at the most while it works."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ids_of_a_part_that_has_none_of_those_wanted_never_become_objects(tmp_path: Path):
    n, each = 1_000, 100
    ids = [[short_id(row, place) for place in range(each)] for row in range(n)]
    rows = [{"query_id": row[0], "passage_ids": row, "scores": [0.5] * each} for row in ids]
    table, wanted = RANKINGS.table(rows), {A}
    part, store = write_rows(LocalStore(tmp_path), table), LocalStore(tmp_path)
    reach = Reach(RANKINGS, KEYS)
    assert reach.rest(table, wanted) is table and not holds(store, part.key, wanted)
    assert holds(store, part.key, {ids[-1][-1]})
    for work in (lambda: reach.rest(table, wanted), lambda: holds(store, part.key, wanted)):
        assert peak_of(work) < n * each, "not a byte an id"


def test_a_dictionary_keeps_no_text_that_only_lost_rows_held(tmp_path: Path):
    """Of a row whose positive and negatives are the erased document's, where no other row has one of these."""
    lost = {"query_id": A, "positive_id": A, "negative_ids": [A, C], "negatives": ["a secret", "plain"]}
    stays = {"query_id": B, "positive_id": B, "negative_ids": [C], "negatives": ["plain"]}
    store = LocalStore(tmp_path)
    part = write_rows(store, Reach(TRIPLETS, KEYS).rest(TRIPLETS.table([lost, stays]), {A}))
    (negatives,) = pq.read_table(store.local_path(part.key))["negatives"].chunks
    assert negatives.values.dictionary.to_pylist() == ["plain"]
    first = TRIPLETS.table([stays | {"negatives": ["b", "a", "c"], "negative_ids": [A, B, C]}, stays]).slice(1)
    again = pq.read_table(store.local_path(write_rows(store, first).key))
    (negatives,) = again["negatives"].chunks
    assert negatives.values.dictionary.to_pylist() == ["plain"] and again.to_pylist() == first.to_pylist()
