"""Columns of files lie beside the rows: who does not ask for one never opens them, and nothing of them is lost."""

from __future__ import annotations

import hashlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.erasure.erase import erase
from pipeline_tasks.core.erasure.search import holds
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Manifest, Part
from pipeline_tasks.core.parts import BODY, part_batches, part_schema, read_part, write_file, write_rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.seal import seal
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.check import find_damage
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.upkeep.sync import sync
from pipeline_tasks.core.versions import Version, load_manifest
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import make, rows_of
from tests.core.upkeep.test_gc_beside_steps import tick
from tests.stores import put

FILES = RowSchema(
    "pdfs",
    "doc_id",
    (
        Column("doc_id", pa.string(), "sha256 of the file", own=True),
        Column("content", BODY, "the file"),
        Column("page", pa.int64(), "a number"),
    ),
)
BODY_BYTES = 100_000


def files(seed: int, n: int = 12) -> list[dict]:
    draw = random.Random(seed)
    contents = [draw.randbytes(BODY_BYTES) for _ in range(n)]
    return [{"doc_id": hashlib.sha256(c).hexdigest(), "content": c, "page": i} for i, c in enumerate(contents)]


@step(reads={"pdfs": FILES}, writes=FILES, kind="map", dataset="marked")
def toy_mark(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """The files, each with a mark at its end."""
    return FILES.table([row | {"content": row["content"] + b"!"} for row in rows.to_pylist()])


def inline(store: Store, rows: list[dict]) -> Part:
    """A part as an earlier release wrote it, with its files among the rows."""
    with store.temporary(".parquet") as path:
        pq.write_table(FILES.table(rows), path, compression="zstd")
        seal(path)
        return write_file(store, path, "x").model_copy(update={"rows": len(rows)})


def test_rows_are_what_was_written_whatever_is_asked(any_store):
    table = FILES.table(files(1))
    part = write_rows(any_store, table)
    assert write_rows(any_store, table) == part and part_schema(any_store, part) == FILES.arrow
    assert read_part(any_store, part).equals(table) and read_part(any_store, part, schema=FILES).equals(table)
    for columns in (["page"], ["content"], ["content", "doc_id"], ["page", "content", "doc_id"]):
        assert read_part(any_store, part, columns).equals(table.select(columns))
        for n in (1, 5, 12, 100):
            found = list(part_batches(any_store, part, columns, n))
            assert pa.concat_tables(found).equals(table.select(columns)) and max(t.num_rows for t in found) <= n


def test_one_other_byte_in_a_file_is_another_part(any_store):
    rows = files(1)
    part = write_rows(any_store, FILES.table(rows))
    rows[3]["content"] = b"other"
    assert write_rows(any_store, FILES.table(rows)).sha256 != part.sha256


def test_no_rows_and_no_files_are_one_object(any_store):
    assert write_rows(any_store, FILES.table([])).bodies is None
    assert "bodies" not in write_rows(any_store, pa.table({"a": [1]})).model_dump()


def test_who_asks_for_no_file_fetches_none(s3, tmp_path):
    ref = put(s3, FILES, files(1), files(2))
    other = S3Store(str(s3), tmp_path / "other", CACHE_BYTES)
    assert len(Version.open(other, ref, FILES).table(["doc_id", "page"])) == 24
    sql = "SELECT page FROM pdfs ORDER BY page"
    assert query(other, sql)["page"].to_pylist() == sorted([*range(12)] * 2)
    copies = [path for path in (other.folder / "objects").rglob("*") if path.is_file()]
    assert copies and sum(path.stat().st_size for path in copies) < BODY_BYTES
    assert Version.open(other, ref, FILES).table()["content"].to_pylist() == [r["content"] for r in files(1) + files(2)]


def test_parts_of_an_earlier_release_are_read_beside_new_ones(any_store):
    old, new = files(1), files(2)
    parts = [inline(any_store, old).model_copy(update={"name": None}), write_rows(any_store, FILES.table(new))]
    with any_store.temporary() as path:
        path.write_bytes(any_store.read(parts[0].key.removesuffix(".parquet")))
        any_store.create_from(parts[0].key, path)
    manifest = Manifest(
        dataset="pdfs", id="0" * 16, step="by_hand", code_version="1", rows_schema="pdfs", key="doc_id", params={},
        inputs={}, rows=24, parts=parts,
    )  # fmt: skip
    version = Version(any_store, manifest, FILES)
    assert version.table().to_pylist() == old + new
    assert version.table(["page"])["page"].to_pylist() == [*range(12)] * 2
    found = pa.concat_tables(version.batches(["content", "page"], 5))
    assert found.to_pylist() == [{"content": row["content"], "page": row["page"]} for row in old + new]


def test_files_stay_as_long_as_their_rows(any_store):
    put(any_store, FILES, files(1), files(2))
    ref = make(any_store, toy_mark).ref
    bodies = {part.bodies.key for part in load_manifest(any_store, ref).parts}
    assert len(bodies) == 2
    tick(any_store)
    drop(any_store, find_garbage(any_store, grace_s=0, memo=True))
    assert any_store.present(bodies) == bodies and len(rows_of(any_store, "marked")) == 24
    any_store.delete(min(bodies))
    assert list(find_damage(any_store).objects) == [min(bodies)]
    any_store.delete(f"versions/marked/{ref.version}.json")
    again = make(any_store, toy_mark)
    assert again.counters["parts_built"] == 1 and any_store.present(bodies) == bodies, "a record without it is no hit"


def test_a_missing_file_is_told_by_who_asks_for_it(tmp_path):
    store = LocalStore(tmp_path / "store")
    part = write_rows(store, FILES.table(files(1)))
    store.delete(part.bodies.key)
    assert read_part(store, part, ["page"]).num_rows == 12
    with pytest.raises(InputError, match=f"{part.bodies.key} is missing"):
        read_part(store, part)


def test_an_erased_file_is_nowhere(any_store):
    rows = files(1)
    ref = put(any_store, FILES, rows, files(2))
    make(any_store, toy_mark)
    gone = rows[4]
    done = erase(any_store, [gone["doc_id"]], {"pdfs": FILES})
    assert done.findings.clean and done.rows == {"pdfs": 1, "marked": 1}
    left = Version.open(any_store, ref, FILES).table().to_pylist()
    assert left == [row for row in rows + files(2) if row != gone]
    for key in any_store.keys("objects"):
        table = pq.read_table(any_store.local_path(key))
        held = table["content"].to_pylist() if "content" in table.column_names else []
        assert not any(content.startswith(gone["content"]) for content in held)


def test_a_part_of_an_earlier_release_is_searched_for_ids_and_for_files(any_store):
    rows = [row | {"doc_id": f"{n:064x}"} for n, row in enumerate(files(1, 3))]
    key = inline(any_store, rows).key
    contents = [hashlib.sha256(row["content"]).hexdigest() for row in rows]
    assert all(holds(any_store, key, {one}) for one in [*contents, *(row["doc_id"] for row in rows)])
    assert not holds(any_store, key, {f"{3:064x}", hashlib.sha256(b"another").hexdigest()})


def test_an_orphaned_file_is_found_by_its_sha256(any_store):
    row = files(1)[0]
    with any_store.temporary() as path:
        pq.write_table(pa.table({"content": pa.array([row["content"]], BODY)}), path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        any_store.create_from(f"objects/{sha256[:2]}/{sha256}.parquet", path)
    put(any_store, FILES, files(2))
    assert erase(any_store, [row["doc_id"]], {"pdfs": FILES}).findings.clean
    assert not any_store.exists(f"objects/{sha256[:2]}/{sha256}.parquet")


def test_a_copy_of_the_store_has_the_files(any_store, tmp_path):
    ref = put(any_store, FILES, files(1))
    folder = LocalStore(tmp_path / "copy")
    sync(any_store, folder, ["pdfs"])
    assert Version.open(folder, ref, FILES).table().to_pylist() == files(1)
