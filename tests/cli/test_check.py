"""``foundry check`` over the toy steps of tests/dags: the remedy that it tells works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def foundry(tmp_path):
    """A run of the command."""
    environment = os.environ | {
        "FOUNDRY_STORE": str(tmp_path / "store"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "dags"))),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "toys.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def test_damage_is_told_and_its_remedy_works(foundry, tmp_path):
    for arguments in (["run", "count", "--set", "parts=2"], ["run", "square"]):
        assert foundry(*arguments).returncode == 0
    whole = foundry("check")
    assert (whole.returncode, whole.stdout.strip()) == (0, "all 3 objects are whole")
    squares = foundry("run", "square").stdout.strip()
    manifest = tmp_path / "store" / "versions" / (squares.replace("@", "/") + ".json")
    sha256 = json.loads(manifest.read_text())["parts"][-1]["sha256"]
    part = tmp_path / "store" / "objects" / sha256[:2] / f"{sha256}.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"?")

    told = foundry("check")
    assert told.returncode == 2 and sha256 in told.stdout and squares in told.stdout
    assert told.stderr.strip().splitlines()[-1] == (
        "foundry: 1 of 3 objects, and 1 versions of them, are lost; copy these objects over from a backup, or "
        "`foundry check --drop` and then run again, in this order: square"
    )
    assert "reused" in foundry("run", "square").stderr, "which is why it must be dropped"
    dropped = foundry("check", "--drop")
    assert dropped.returncode == 0 and dropped.stdout.strip().endswith("run again, in this order: square")
    again = foundry("run", "square")
    assert "built" in again.stderr and again.stdout.strip() == squares
    assert foundry("check").returncode == 0
