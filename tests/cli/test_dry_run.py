"""``foundry run --dry-run`` over the toy steps of tests/dags."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def foundry(tmp_path):
    """The last line of the command's output."""
    environment = os.environ | {
        "FOUNDRY_STORE": str(tmp_path / "store"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "dags"))),
    }

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "toys.cli", "run", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.strip().splitlines()[-1]

    return run


def test_it_says_what_is_new_and_does_nothing(foundry, tmp_path):
    assert foundry("count", "--dry-run") == "numbers would be made anew, from: nothing"
    assert not list((tmp_path / "store").rglob("*.json"))
    numbers = foundry("count", "--set", "parts=3")
    told = foundry("square", "--dry-run")
    assert told.endswith(f"would be made: 3 of 3 parts, 6 rows of {numbers} are new")
    assert foundry("square", "--group", "0/3") == "group 0/3"
    assert ": 2 of 3 parts, 4 rows" in foundry("square", "--dry-run")
    squares = foundry("square")
    assert told.startswith(squares), "the id is known before the work"
    assert foundry("square", "--dry-run") == f"{squares} is there: nothing to do"
