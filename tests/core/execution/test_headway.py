"""What follows a step that goes on from its scratch folder."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline_tasks.core.execution import headway
from pipeline_tasks.core.store import LocalStore


def test_what_is_laid_out_counts_as_used_while_the_step_runs(tmp_path: Path, monkeypatch):
    store, copy = LocalStore(tmp_path / "store"), tmp_path / "cached"
    copy.write_text("weights")
    os.utime(copy, (0, 0))
    (folder := tmp_path / "scratch").mkdir()
    (folder / "model").symlink_to(copy)
    (folder / "gone").symlink_to(tmp_path / "nothing")
    monkeypatch.setattr(headway, "LOOK_S", 0.01)
    version, resumes = SimpleNamespace(version="v"), SimpleNamespace(resources=SimpleNamespace(resumes=True))
    with headway.marking_headway(store, SimpleNamespace(step=resumes, ref=version), folder):
        deadline = time.monotonic() + 60
        while not copy.stat().st_mtime and time.monotonic() < deadline:
            time.sleep(0.01)
    assert time.time() - copy.stat().st_mtime < 3600


def test_what_is_half_written_is_no_headway(tmp_path: Path):
    store, version = LocalStore(tmp_path / "store"), SimpleNamespace(version="v")
    job = SimpleNamespace(step=SimpleNamespace(kind="reduce", resources=SimpleNamespace(resumes=True)), ref=version)
    (folder := tmp_path / "scratch").mkdir()

    def after(name: str, size: int) -> str:
        (folder / name).write_bytes(b"x" * size)
        with pytest.raises(KeyboardInterrupt), headway.marking_headway(store, job, folder):
            raise KeyboardInterrupt
        return headway.headway(store, job)

    first = after("step-1.pt", 5)
    assert first and after("step-2.part", 3) == first == after("step-2.part", 4)
    assert after("step-2.pt", 5) != first


def test_a_look_goes_through_each_folder_once_and_holds_nothing_of_its_files(tmp_path: Path, monkeypatch):
    (bodies := tmp_path / "bodies").mkdir()
    for n in range(2_000):
        (bodies / f"{n:064x}").touch()
    (tmp_path / "outcomes.jsonl").write_text("{}\n")
    scanned, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scanned.append(str(folder)) or scandir(folder))
    tracemalloc.start()
    first = headway._looked_at(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sorted(scanned) == [str(tmp_path), str(bodies)] and peak < 50 * 2_000
    with (tmp_path / "outcomes.jsonl").open("a") as lines:
        lines.write("{}\n")
    assert headway._looked_at(tmp_path) != first


def test_headway_is_what_files_are_called_and_how_large_they_are_however_deep(tmp_path: Path):
    def folder(name: str, *files: tuple[str, int]) -> str:
        for at, size in files:
            (tmp_path / name / at).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / at).write_bytes(b"x" * size)
        return headway._looked_at(tmp_path / name)

    one, other = ("checkpoints/1/weights.pt", 5), ("model/weights.pt", 7)
    first = folder("a", one, other)
    assert folder("b", other, one) == first, "laid out again, and in another order"
    (tmp_path / "b" / "empty").mkdir()
    (tmp_path / "b" / "model" / "gone").symlink_to(tmp_path / "nothing")
    assert headway._looked_at(tmp_path / "b") == first
    others = [folder("c", one), folder("d", one, ("model/weights.pt", 8)), folder("e", one, ("weights.pt", 7))]
    assert len({first, *others, folder("b", ("checkpoints/2/weights.pt", 5))}) == 5
    assert headway._looked_at(tmp_path / "nowhere") == ""
