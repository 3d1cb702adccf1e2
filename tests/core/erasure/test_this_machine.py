"""An erasure drops all work in progress of its machine, or says what it cannot drop."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.erasure.listed import erasures
from pipeline_tasks.core.store import TEMPORARY, LocalStore
from tests.core.erasure.library import SECRET, A, fill, take_down
from tests.stores import put_part


def test_work_on_another_disk_and_unfinished_files_of_any_name_go(any_store, tmp_path):
    disk, key = tmp_path / "disk", put_part(any_store, b"a model")
    disk.mkdir()
    any_store.scratches.symlink_to(disk)
    fill(any_store)
    (any_store.scratches / "file").write_text(SECRET)
    unfinished = any_store.folder / TEMPORARY
    for name in ("answer", "part.parquet", "part.parquet.copy"):
        (unfinished / name).write_text(SECRET)
    assert take_down(any_store, A.url).findings.clean
    assert [*disk.iterdir(), *unfinished.iterdir()] == [] and any_store.scratch("again").is_dir()
    assert any_store.exists(key)


@pytest.mark.parametrize("name", ["scratch", "scratch/mine"])
def test_what_cannot_go_is_told_until_it_is_gone(tmp_path, name):
    store, disk = LocalStore(tmp_path / "store"), tmp_path / "disk"
    fill(store)
    store.drop_scratch("crawl")
    link = store.root / name
    if name == "scratch":
        store.scratches.rmdir()
    else:
        disk.mkdir()
        (disk / "body").write_text(SECRET)
        (store.scratch("work") / "body").write_text(SECRET)
    link.symlink_to(disk)
    findings = take_down(store, A.url).findings
    (where,) = findings.where
    assert where.startswith(f"{link} (") and not findings.clean and not any(e.done for e in erasures(store))
    assert not (store.scratches / "work").exists() and (disk / "body").exists() == disk.exists()
    link.unlink()
    assert take_down(store, A.url).findings.clean and all(e.done for e in erasures(store))
