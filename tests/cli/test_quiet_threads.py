"""Threads of what a command computes give way while they wait, whatever it was that started the command."""

import os
import subprocess
import sys

import pytest

COMMAND = "from pipeline_tasks.cli.main import main\ntry: main()\nexcept SystemExit: import faiss"


@pytest.mark.parametrize(("given", "expected"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_openmp_is_told_to_give_way_unless_the_environment_says_otherwise(given, expected) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    shown = subprocess.run(
        [sys.executable, "-c", COMMAND, "--help"],
        env=environment | given | {"OMP_DISPLAY_ENV": "TRUE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"OMP_WAIT_POLICY = '{expected}'" in shown.stderr
