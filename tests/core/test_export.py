"""Copies of a version: all of it, or nothing that stands in the way of the next try."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.export import PARTIAL, export
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from tests.core.toy_steps import latest, make, toy_list, toy_model
from tests.disks import small_disk


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={f"item{n}": n for n in range(50)})
    return store


@pytest.fixture
def version(store) -> Version:
    return latest(store, "items")


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


def test_a_folder_of_where_one_is_gets_the_files_of_a_model(store, tmp_path, monkeypatch):
    make(store, toy_model)
    monkeypatch.chdir(tmp_path)
    written = export(latest(store, "model/33m/toy"), Path("out"))
    assert sorted(written) == [Path("out/config/card.json"), Path("out/weights.bin")]
    assert all(path.is_file() for path in written) and not (tmp_path / "out" / PARTIAL).exists()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "config/../../out"])
def test_a_file_that_would_leave_the_folder_is_refused(store, tmp_path, name):
    make(store, toy_model)
    model = latest(store, "model/33m/toy")
    parts = tuple(part.model_copy(update={"name": name}) for part in model.manifest.parts)
    hostile = replace(model, manifest=model.manifest.model_copy(update={"parts": parts}))
    for take in (partial(export, hostile), hostile.lay_out):
        with pytest.raises(InputError, match="names a file outside it"):
            take(tmp_path / "taken")
    assert not [path for path in (tmp_path / "taken").rglob("*") if path.is_file()]


def test_what_a_killed_export_left_is_replaced(version, tmp_path):
    (tmp_path / "out" / PARTIAL).mkdir(parents=True)
    (tmp_path / "out" / PARTIAL / "half").write_text("half")
    written = export(version, tmp_path / "out")
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)


def test_a_folder_that_holds_something_is_refused(version, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        export(version, tmp_path)


def test_an_export_that_was_killed_while_it_moved_up_is_replaced(version, tmp_path, monkeypatch):
    rename, moved = Path.rename, []

    def killed(self, target):
        if moved:
            raise KeyboardInterrupt
        moved.append(rename(self, target))

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # nobody tidies up after a kill
    with pytest.raises(KeyboardInterrupt):
        export(version, tmp_path / "out")
    monkeypatch.undo()
    assert len(list((tmp_path / "out").iterdir())) == 2
    written = export(version, tmp_path / "out")
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)
    (tmp_path / "out" / PARTIAL).mkdir()
    (tmp_path / "out" / PARTIAL / ".moved").write_text('[".."]')
    with pytest.raises(InputError, match="is not empty"):
        export(version, tmp_path / "out")
    assert tmp_path.is_dir()
