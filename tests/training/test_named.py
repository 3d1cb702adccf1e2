"""Code that counts in a model's id is the code that ran, whatever its file says since."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.named import Named, by_name
from pipeline_tasks.training.parallel.peers import Peers
from pipeline_tasks.training.parallel.processes import run_in_processes

KIND = """
from pipeline_tasks.training.named import Named


class Halved(Named):
    by: int = 2
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is imported by its name, in a package of its own."""
    package = tmp_path / "kinds_of_mine"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    file = package / "halved.py"
    file.write_text(KIND)
    return file


def take_up(one: Named, peers: Peers, tell) -> None:
    tell(one.identity())


def taken_up(one: Named) -> list[dict]:
    """What it is in the processes that train together; they begin anew here."""
    told: list[dict] = []
    run_in_processes(partial(take_up, one), ("cpu", "cpu"), told.append)
    return told


def test_a_file_that_is_edited_once_it_runs_is_known_by_what_it_was(file):
    one = by_name("halved", Named, file.parent.name, ["halved"])
    before = one.identity()
    assert taken_up(one) == [before]
    file.write_text(KIND.replace("2", "3"))
    assert one.identity() == before
    with pytest.raises(InputError, match=r"halved\.py changed since this run began: start the run again"):
        taken_up(one)
