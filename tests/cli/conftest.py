"""The command over the toy steps of tests/dags."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def toys(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``foundry …``, with its store in ``tmp_path``."""
    environment = os.environ | {
        "FOUNDRY_STORE": str(tmp_path / "store"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "dags"))),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "toys.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run
