"""Columns of a part in a bucket: what is fetched of it, and what happens where it is not right."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Part
from pipeline_tasks.core.parts import part_batches, part_schema, read_part, write_rows
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.versions import Version

BODY_BYTES = 50_000
ROWS = 40
ASKED = ["doc_id", "page"]


@pytest.fixture
def fetched(monkeypatch) -> list[int]:
    """Bytes of every answer with a body, as the bucket gives them."""
    seen: list[int] = []
    get, download = Bucket.get_range, Bucket.download

    def get_range(self, key, first, past):
        seen.append(past - first)
        return get(self, key, first, past)

    def whole(self, key, path):
        found = download(self, key, path)
        seen.append(path.stat().st_size)
        return found

    monkeypatch.setattr(Bucket, "get_range", get_range)
    monkeypatch.setattr(Bucket, "download", whole)
    return seen


def _bodies() -> pa.Table:
    draw = random.Random(3)
    rows = [{"doc_id": f"d{n}", "content": draw.randbytes(BODY_BYTES), "page": n} for n in range(ROWS)]
    return pa.Table.from_pylist(rows)


@pytest.fixture
def part(s3: S3Store) -> Part:
    """Two megabytes of documents, and no copy of them on this machine."""
    part = write_rows(s3, _bodies())
    s3.objects.copies.drop(part.key)
    return part


def _wanted() -> list[dict]:
    return _bodies().select(ASKED).to_pylist()


def test_two_columns_of_a_large_part_do_not_fetch_its_bodies(s3, part, fetched):
    assert read_part(s3, part, ASKED).to_pylist() == _wanted()
    assert part_schema(s3, part).names == ["doc_id", "content", "page"]
    blocks = list(part_batches(s3, part, ASKED, 7))
    assert pa.concat_tables(blocks).to_pylist() == _wanted() and max(map(len, blocks)) == 7
    assert sum(fetched) < part.size_bytes / 8
    assert not (s3.folder / part.key).exists()


def test_what_is_most_of_a_part_or_here_already_is_read_from_one_file(s3, part, fetched):
    assert read_part(s3, part, ["content"]).equals(_bodies().select(["content"]))
    there = sum(fetched)
    assert (s3.folder / part.key).exists() and there < part.size_bytes * 1.1
    assert read_part(s3, part, ASKED).to_pylist() == _wanted()
    assert sum(fetched) == there


def test_small_parts_are_fetched_before_they_are_read_and_large_ones_are_not(s3, part):
    """One, then two, then four and so on, side by side: whoever stops at the first part has not fetched them all."""
    small = [write_rows(s3, _bodies().slice(n, 1)) for n in range(10)]
    manifest = Manifest(
        dataset="d", id="1", step="s", code_version="1", rows_schema="", key="", params={}, inputs={}, rows=50,
        parts=[*small[:2], part, *small[2:]],
    )  # fmt: skip
    for one in small:
        s3.objects.copies.drop(one.key)

    def here() -> list[int]:
        return [n for n, one in enumerate(small) if (s3.folder / one.key).exists()]

    assert not here()
    found = Version(s3, manifest).parts(ASKED)
    rows, seen = [], []
    for table in found:
        rows += table.to_pylist()
        seen.append(here())
    assert seen[:4] == [[0], [0, 1], [0, 1], [0, 1, 2, 3, 4, 5]] and seen[-1] == list(range(10))
    assert rows == [*_wanted()[:2], *_wanted(), *_wanted()[2:10]]
    assert not (s3.folder / part.key).exists()


def test_a_small_part_is_fetched_in_one_request(s3, fetched):
    part = write_rows(s3, _bodies().slice(0, 3))
    s3.objects.copies.drop(part.key)
    assert read_part(s3, part, ASKED).num_rows == 3
    assert fetched == [part.size_bytes]


def test_a_part_of_an_older_release_has_no_seal_and_is_fetched_whole(s3, fetched):
    from pipeline_tasks.core.parts import _store_file

    with s3.temporary(".parquet") as path:
        pq.write_table(_bodies(), path)
        part = _store_file(s3, path, ROWS)
    s3.objects.copies.drop(part.key)
    assert read_part(s3, part, ASKED).to_pylist() == _wanted()
    assert part.size_bytes in fetched


def _places(part: Part, data: bytes) -> Iterator[int]:
    """In the columns that are asked for, at their beginnings, too; in the seal, the footer and its length."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    for name in ASKED:
        chunk = metadata.row_group(0).column(["doc_id", "content", "page"].index(name))
        first = chunk.dictionary_page_offset or chunk.data_page_offset
        yield from (first, first + 3, first + chunk.total_compressed_size // 2)
    footer = len(data) - 8 - metadata.serialized_size
    yield from (footer - 100, footer - 20, footer - 3, footer + 30, len(data) - 300, len(data) - 7)


def test_a_byte_that_is_wrong_is_never_read_as_a_row(s3, part):
    """Whatever piece it is in: the object is then fetched whole, and refused by its name."""
    data = s3.read(part.key)
    for place in _places(part, data):
        wrong = bytearray(data)
        wrong[place] ^= 0x10
        s3.replace(part.key, bytes(wrong))
        with pytest.raises(InputError, match=f"{part.sha256}.parquet in .* is corrupted"):
            read_part(s3, part, ASKED)
        with pytest.raises(InputError, match="is corrupted"):
            list(part_batches(s3, part, ASKED, 7))


def test_an_answer_that_was_wrong_once_does_no_harm(s3, part, monkeypatch, caplog):
    get = Bucket.get_range

    def noisy(self, key, first, past):
        data, size = get(self, key, first, past)
        return (data if first + len(data) == size else bytes(len(data))), size  # the end alone is right

    monkeypatch.setattr(Bucket, "get_range", noisy)
    assert read_part(s3, part, ASKED).to_pylist() == _wanted()
    assert "the object is fetched whole" in caplog.text


def test_another_object_under_its_name_is_refused(s3, part):
    s3.replace(part.key, (s3.read(part.key) or b"") + b"x")
    with pytest.raises(InputError, match="bytes and not"):
        read_part(s3, part, ASKED)
    s3.delete(part.key)
    with pytest.raises(InputError, match="has fewer bytes|is missing"):
        read_part(s3, part, ASKED)


def test_a_sealed_part_is_the_same_rows_for_other_readers(s3, part):
    import duckdb

    path = s3.local_path(part.key)
    assert b"SEALED" in path.read_bytes()[-4096:]
    assert pq.read_table(path).equals(_bodies())
    assert duckdb.sql(f"SELECT sum(page) FROM '{path}'").fetchall() == [(sum(range(ROWS)),)]  # noqa: S608
