"""Options of ``[foundry]`` in Airflow's configuration: what is read is told, and what is set is read."""

from __future__ import annotations

import re
import runpy
from datetime import timedelta
from pathlib import Path

from foundry_airflow.tries import retry_delay_s

ROOT = Path(__file__).parents[2]
READ = re.compile(r"""(?:\b(?:option|number)\(|\bconf\.get\w*\(\s*['"]foundry['"],)\s*['"](\w+)['"]""")


def told() -> set[str]:
    """The options in the table of docs/backends.md."""
    table = (ROOT / "docs" / "backends.md").read_text("utf-8").split("\n## Options\n")[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


def test_every_option_that_is_read_is_in_the_table():
    files = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    read = {name for file in files for name in READ.findall(file.read_text("utf-8"))}
    assert {"backend", "gpus", "retry_delay_s", "alert_webhook", "source"} <= read
    assert read - told() == set()


def test_every_option_that_the_compose_file_sets_is_in_the_table():
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    given = {name.lower() for name in re.findall(r"\bAIRFLOW__FOUNDRY__(\w+):", text)}
    assert {"backend", "docker_sources"} <= given
    assert given - told() == set()


def test_a_pause_may_be_part_of_a_second(monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0.5")
    told = runpy.run_path(str(ROOT / "plugins" / "foundry_airflow" / "steps.py"))["DEFAULT_ARGS"]
    assert told["retry_delay"] == timedelta(seconds=retry_delay_s()) == timedelta(seconds=0.5)
