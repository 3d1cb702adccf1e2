"""What follows a step that goes on from its scratch folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline_tasks.core import headway
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
    with headway.told(store, SimpleNamespace(step=resumes, ref=version), folder):
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
        with pytest.raises(KeyboardInterrupt), headway.told(store, job, folder):
            raise KeyboardInterrupt
        return headway.headway(store, job)

    first = after("step-1.pt", 5)
    assert first and after("step-2.part", 3) == first == after("step-2.part", 4)
    assert after("step-2.pt", 5) != first
