"""Files of rows are named by what they hold, and by how that is read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.synthesis.files.pair_files import PairFiles


@pytest.mark.parametrize(
    ("line", "read_otherwise"),
    [('{"a": NaN}', True), ('{"a": [1, -Infinity ]}', True), ('{"a": "NaN, Infinity", "b": "[1, NaN, 3]"}', False)],
)
def test_a_file_of_json_is_named_as_before_unless_a_number_in_it_is_none(
    tmp_path: Path, line: str, read_otherwise: bool
) -> None:
    for name, write in (("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress)):
        (tmp_path / name).write_bytes(write(b'{"a": 1}\n' + line.encode()))
        named = digest((name, file_sha256(tmp_path / name)))
        assert (PairFiles(str(tmp_path / name)).identity() != named) == read_otherwise


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("a.csv", 'q,p\n\n"a\nb",c\r\n\n"d\r\n\r\ne",f\nbad\ng,h\n', {3: "a\nb", 6: "d\r\n\r\ne", 9: None, 10: "g"}),
        ("a.tsv", 'q\tp\n"a\tb\nbad\nc\td\n', {2: '"a', 3: None, 4: "c"}),
        ("a.jsonl", '{"q": "a"}\nbad\n{"q": "c"}\n', {1: "a", 2: None, 3: "c"}),
    ],
)
def test_a_row_is_told_by_the_line_that_it_begins_in(tmp_path: Path, name: str, text: str, numbers: dict) -> None:
    for path, write in ((tmp_path / "plain" / name, bytes), (tmp_path / "packed" / f"{name}.gz", gzip.compress)):
        path.parent.mkdir()
        path.write_bytes(write(text.encode()))
        rows = {place.number: row and row["q"] for place, row in PairFiles(str(path)).rows()}
        assert rows == numbers


def test_lines_are_counted_from_the_first_where_the_columns_have_names_already(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a,b\nbad\n")
    rows = PairFiles(str(tmp_path), names=("q", "p"), separator=",").rows()
    assert [(str(place), row) for place, row in rows] == [
        ("a.tsv, line 1", {"q": "a", "p": "b"}), ("a.tsv, line 2", None),
    ]  # fmt: skip
