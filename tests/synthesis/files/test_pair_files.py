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
