"""Scripts run with the bash of macOS, 3.2, too."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
SCRIPTS = [
    name for name in FILES if (ROOT / name).is_file() and (ROOT / name).open("rb").readline().endswith(b" bash\n")
]
NEWER = re.compile(
    r"\b(mapfile|readarray|coproc|wait -n|(declare|local) -\w*[An])\b|&>>|\|&|\$\{\w+[\^,@]|\[-\d+\]\}|=\(\)"
)
"""What came later; an empty array counts as unset there, so that `set -u` ends the script."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_needs_no_newer_bash(name):
    assert not NEWER.search((ROOT / name).read_text("utf-8"))


def test_the_scripts_are_found():
    assert {"containers/build", "containers/lock"} <= set(SCRIPTS)
