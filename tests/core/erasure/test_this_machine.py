"""An erasure drops all work in progress of its machine, or says what it cannot drop."""

from __future__ import annotations

import fcntl
from importlib import import_module
from threading import Event, Thread

import pytest

from pipeline_tasks.core.erasure.listed import erasures
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.lineage import fold
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


def test_a_fold_that_is_under_way_is_waited_for(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    fill(store)
    waits, erasing = Event(), Thread(target=take_down, args=(store, A.url))
    module = import_module("pipeline_tasks.core.lineage.fold")
    fill_tables, lock = module._fill, fcntl.flock

    def fill_beside_an_erasure(*given: object) -> None:
        erasing.start()
        while erasing.is_alive() and not waits.wait(0.01):
            pass
        fill_tables(*given)

    def lock_and_tell(handle: object, kind: int) -> None:
        if getattr(handle, "name", None) == str(store.root / "lineage" / "fold.lock") and erasing.ident:
            waits.set()
        lock(handle, kind)

    monkeypatch.setattr(module, "_fill", fill_beside_an_erasure)
    monkeypatch.setattr(fcntl, "flock", lock_and_tell)
    assert fold(store).is_file()
    erasing.join()
    assert all(e.done for e in erasures(store)) and waits.is_set()


def test_who_loses_an_unfinished_file_to_an_erasure_tries_again(any_store):
    fill(any_store)
    with pytest.raises(TransientError, match="try again"), any_store.temporary() as path:
        take_down(any_store, A.url)
        any_store.create_from("refs/x", path)
    with pytest.raises(FileNotFoundError), any_store.temporary() as path:
        path.with_name("other").read_bytes()
