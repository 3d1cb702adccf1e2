"""``foundry stale`` after the version of a step in the middle of the toy chain was raised."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHAIN = """
from toys import cli
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.store import open_store

for name, values in (("count", {}), ("square", {"refuse": 99}), ("square", {}), ("total", {})):
    store = open_store()
    print(run_job(store, plan(store, get_step(name), values)).ref)
"""


def test_versions_of_a_step_that_was_raised_since_are_listed_with_what_was_made_of_them(tmp_path):
    shutil.copytree(ROOT / "tests" / "dags" / "toys", tmp_path / "toys", ignore=shutil.ignore_patterns("__pycache__"))
    code = tmp_path / "toys" / "room" / "square.py"

    def python(*arguments: str) -> str:
        path = os.pathsep.join((str(ROOT), str(tmp_path)))
        environment = os.environ | {"FOUNDRY_STORE": str(tmp_path / "store"), "PYTHONPATH": path}
        command = [sys.executable, "-B", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    _, old, made, total = python("-c", CHAIN).split()
    assert python("-m", "toys.cli", "stale") == "every version was made by the code as it is\n"
    code.write_text(code.read_text().replace('kind="map"', 'kind="map", version="2"'))

    first, second = json.loads(python("-m", "toys.cli", "stale", "--format", "json"))
    assert (f"squares@{first['version']}", first["is_latest"], first["downstream"]) == (made, True, [total])
    assert (f"squares@{second['version']}", second["is_latest"], second["downstream"]) == (old, False, [])
    assert (first["step"], first["code_version"], first["current_version"]) == ("square", "1", "2")
    rows = list(csv.DictReader(io.StringIO(python("-m", "toys.cli", "stale", "--format", "csv"))))
    assert [json.loads(row["downstream"]) for row in rows] == [[total], []]
    shown = python("-m", "toys.cli", "stale")
    assert "square v1" in shown and total in shown
    assert shown.endswith("run again, in this order: square\n")
