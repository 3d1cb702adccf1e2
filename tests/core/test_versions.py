from __future__ import annotations

import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import read_part, write_passing, write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, point, resolve
from tests.core.toy_steps import ITEMS, latest, make, rows_of, toy_list, toy_model, toy_scale, toy_unique


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """``scaled`` has six rows in three parts, ``unique`` lacks the second and the sixth."""
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"a": 1, "b": 1, "c": 2, "d": 3, "e": 4, "f": 2, "bad": -1})
    make(store, toy_scale)
    make(store, toy_unique)
    return store


def test_the_same_rows_are_the_same_object(store):
    rows = [{"item_id": f"{n}", "value": n} for n in range(100)]
    first, second = (write_rows(store, ITEMS.table(rows)) for _ in range(2))
    assert first == second and store.exists(first.key)


def test_a_dictionary_that_holds_a_value_twice_gives_the_same_bytes_as_one_that_does_not(store):
    twice, once = pa.array(["a" * 50, "b", "a" * 50]), pa.array(["a" * 50, "b"])
    flat = [
        pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), values)
        for numbers, values in (([2, 0, 1, 2, None, 1], twice), ([0, 0, 1, 0, None, 1], once))
    ]
    lists = [pa.ListArray.from_arrays(pa.array([0, 1, 3, None, 6], pa.int32()), column).slice(1) for column in flat]
    tables = [pa.table({"shared": column.slice(1, 3), "lists": of}) for column, of in zip(flat, lists, strict=True)]
    assert tables[0].to_pydict() == tables[1].to_pydict()
    assert len({write_rows(store, table).sha256 for table in [*tables, tables[0]]}) == 1


def test_readers_skip_what_is_removed(store):
    unique = latest(store, "unique")
    assert [row["item_id"] for row in rows_of(store, "unique")] == ["a", "c", "d", "e"]
    assert unique.manifest.parts == latest(store, "scaled").manifest.parts
    assert unique.manifest.rows == 4 and sum(p.rows for p in unique.manifest.parts) == 6


def test_a_column_that_is_not_asked_for_still_decides_what_is_removed(store):
    assert latest(store, "unique").table(["value"]).to_pydict() == {"value": [2, 4, 6, 8]}


@pytest.mark.parametrize("n_rows", [1, 2, 100])
def test_blocks_hold_the_live_rows_in_order(store, n_rows):
    unique = latest(store, "unique")
    blocks = list(unique.batches(["value"], n_rows))
    assert pa.concat_tables(blocks).equals(unique.table(["value"]))
    assert max(block.num_rows for block in blocks) <= n_rows
    assert pa.concat_tables(unique.batches(["value"], n_rows, [1])).equals(unique.part(1, ["value"]))


@pytest.mark.parametrize("write", [write_rows, write_passing])
def test_a_long_text_that_many_rows_share_is_stored_once(store, write):
    """Random texts of 4 MB in all, each in twenty rows: a writer left alone gives up the dictionary after 1 MB."""
    texts = [random.Random(i).randbytes(1000).hex() for i in range(2000)]
    shared = pa.DictionaryArray.from_arrays(pa.array(list(range(2000)) * 20, pa.int32()), pa.array(texts))
    part = write(store, pa.table({"text": shared}))
    assert part.size_bytes < 4_000_000
    assert read_part(store, part)["text"].to_pylist() == texts * 20


def test_what_functions_hand_on_has_no_dictionaries_and_the_same_rows(store):
    table = pa.table(
        {"hash": pa.array([1, 1, 1 << 63], pa.uint64()), "id": ["a", None, "a"], "lists": [[0.5], [], None]}
    )
    part = write_passing(store, table)
    assert read_part(store, part).equals(table) and part == write_passing(store, table)
    columns = pq.ParquetFile(store.local_path(part.key)).metadata.row_group(0)
    assert not any(columns.column(at).has_dictionary_page for at in range(columns.num_columns))


def test_a_version_travels_to_another_process_without_what_it_read(store):
    unique = latest(store, "unique")
    fresh = len(pickle.dumps(unique))
    unique.table()
    assert len(pickle.dumps(unique)) == fresh
    assert pickle.loads(pickle.dumps(unique)).manifest == unique.manifest


@pytest.mark.parametrize(("dataset", "rejected"), [("items", ["bad"]), ("unique", ["s-b", "s-f"])])
def test_rejects_read_as_a_dataset(store, dataset, rejected):
    rejects = latest(store, f"{dataset}/rejects")
    assert rejects.table()["row_id"].to_pylist() == rejected
    assert rejects.manifest.rows == len(rejected) and rejects.manifest.rows_schema == "rejects"
    version = latest(store, dataset).manifest.id
    assert resolve(store, Ref.parse(f"{dataset}/rejects")) == Ref.parse(f"{dataset}/rejects@{version}")


def test_a_name_points_where_it_is_told(store):
    old = latest(store, "items").manifest.ref
    make(store, toy_list, rows={"a": 1})
    point(store, old, "kept")
    assert resolve(store, Ref.parse("items@kept")) == old != resolve(store, Ref.parse("items"))


@pytest.mark.parametrize("name", ["items@nothere", "nothere", "unique@items", "items/rejects@nothere"])
def test_what_is_not_there_is_named_with_a_remedy(store, name):
    with pytest.raises(InputError) as caught:
        load_manifest(store, Ref.parse(name))
    assert name in str(caught.value)
    assert "versions there: " in str(caught.value) or "run the step that writes it" in str(caught.value)


def test_versions_of_a_dataset_below_are_not_offered(store):
    make(store, toy_model)
    with pytest.raises(InputError, match="run the step that writes it"):
        load_manifest(store, Ref.parse("model/33m"))


def test_a_version_without_parts_says_so(store, tmp_path):
    empty = LocalStore(tmp_path / "empty")
    make(empty, toy_list, rows={})
    with pytest.raises(InputError, match=r"items@\w+ has no parts: .* had no input, or refused all"):
        latest(empty, "items").table()


def test_a_model_is_laid_out_under_its_logical_names(store, tmp_path):
    make(store, toy_model)
    for _ in range(2):
        folder = latest(store, "model/33m/toy").lay_out(tmp_path / "model")
    assert '"rows": 6' in (folder / "config" / "card.json").read_text()
