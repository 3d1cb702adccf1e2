"""Copies of a version: all of it, or nothing that stands in the way of the next try."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.export import PARTIAL, export
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from tests.core.toy_steps import make, toy_list
from tests.disks import small_disk


@pytest.fixture
def version(tmp_path) -> Version:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={f"item{n}": n for n in range(50)})
    return Version.open(store, Ref.parse("items"))


def test_a_full_disk_is_told_and_the_next_try_succeeds(version, tmp_path):
    with small_disk(tmp_path / "small", "1m") as small:
        ballast = small / "ballast"
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(bytes(2 << 20))
        with pytest.raises(TransientError, match="no space is left in .*small"):
            export(version, small / "out", "jsonl")
        assert not list((small / "out").iterdir())
        ballast.unlink()
        written = export(version, small / "out", "jsonl")
        assert sum(len(path.read_text("utf-8").splitlines()) for path in written) == version.manifest.rows


def test_what_a_killed_export_left_is_replaced(version, tmp_path):
    (tmp_path / "out" / PARTIAL).mkdir(parents=True)
    (tmp_path / "out" / PARTIAL / "half").write_text("half")
    written = export(version, tmp_path / "out")
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)


def test_a_folder_that_holds_something_is_refused(version, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        export(version, tmp_path)
