"""Code that counts in a model's id is the code that ran, whatever its file says since."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_tasks.training.named import Named, by_name

KIND = """
from pipeline_tasks.training.named import Named


class Halved(Named):
    by: int = 2
"""
TAKEN_UP = "import pickle, sys; print(pickle.load(sys.stdin.buffer).identity()['code'])"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is imported by its name, in a package of its own."""
    package = tmp_path / "kinds_of_mine"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    file = package / "halved.py"
    file.write_text(KIND)
    return file


def taken_up(one: Named) -> subprocess.CompletedProcess[bytes]:
    """In another process, as by the devices that train together."""
    return subprocess.run([sys.executable, "-c", TAKEN_UP], input=pickle.dumps(one), capture_output=True, check=False)


def test_a_file_that_is_edited_once_it_runs_is_known_by_what_it_was(file):
    one = by_name("halved", Named, file.parent.name, ["halved"])
    before = one.identity()
    assert taken_up(one).stdout.decode().strip() == before["code"]
    file.write_text(KIND.replace("2", "3"))
    assert one.identity() == before
    refused = taken_up(one)
    assert (
        refused.returncode and "halved.py changed since this run began: start the run again" in refused.stderr.decode()
    )
