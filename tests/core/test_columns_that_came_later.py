from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.partitions import pieces
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit, point
from tests.core.toy_steps import ITEM_ID, ITEMS, make, toy_scale
from tests.stores import put

BEFORE = RowSchema("items", "item_id", (ITEM_ID,))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """``items`` has a part that was written before there was a ``value``, and one that has it."""
    store = LocalStore(tmp_path / "store")
    manifest = Version.open(store, put(store, BEFORE, [{"item_id": "old"}, {"item_id": "older"}])).manifest
    new = write_rows(store, ITEMS.table([{"item_id": "new", "value": 7}]))
    both = manifest.model_copy(update={"id": "1" * 16, "parts": [*manifest.parts, new], "rows": 3})
    commit(store, both)
    point(store, both.ref)
    return store


def _read(store: LocalStore) -> Version:
    """As the step reads it."""
    return plan(store, toy_scale, {}).open(store)["items"][0]


def test_a_column_that_came_later_reads_as_null_in_old_parts(store):
    wanted = [("old", None), ("older", None), ("new", 7)]
    items = _read(store)
    assert [tuple(row.values()) for row in items.table().to_pylist()] == wanted
    assert [row["value"] for row in items.table(["value"]).to_pylist()] == [None, None, 7]
    blocks = list(items.batches(["value", "item_id"], 1))
    assert [(row["item_id"], row["value"]) for block in blocks for row in block.to_pylist()] == wanted
    assert {block.schema.field("value").type for block in blocks} == {pa.int64()}


def test_neighbouring_parts_read_it_as_null_too(store):
    blocks = pieces({"items": _read(store)}, most_rows=1)
    found = [row for block in blocks for rows in block["items"].tables(["value"]) for row in rows["value"].to_pylist()]
    assert found == [None, None, 7]


def test_who_knows_no_schema_reads_null_too(store):
    assert Version.open(store, Ref.parse("items")).table().column("value").to_pylist() == [None, None, 7]
    assert query(store, "SELECT value FROM items ORDER BY ALL").column(0).to_pylist() == [7, None, None]


def test_a_column_that_was_taken_out_is_not_read(store):
    held = RowSchema("items", "item_id", (*ITEMS.columns, Column("gone", pa.string(), "no longer wanted")))
    put(store, held, [{"item_id": "a", "value": 1, "gone": "x"}])
    assert _read(store).table().to_pylist() == [{"item_id": "a", "value": 1}]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((ITEM_ID, Column("value", pa.string(), "a word")), "has value as int64, and they have it as string"),
        ((ITEM_ID, Column("number", pa.int64(), "its old name")), "has value, and they have number instead"),
    ],
)
def test_a_changed_column_is_refused_with_the_command_that_makes_the_rows_anew(store, columns, said):
    ref = put(store, RowSchema("items", "item_id", columns), [{"item_id": "a"}])
    with pytest.raises(InputError, match=said) as caught:
        make(store, toy_scale)
    assert f"{ref} has rows of an older release" in str(caught.value)
    assert "`foundry stale`" in str(caught.value) and "`foundry run by_hand`" in str(caught.value)
