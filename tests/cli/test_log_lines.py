"""What a command writes to the standard error, for people and for programs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

from pipeline_tasks.core.lines import TextLines

ROOT = Path(__file__).parents[2]


def foundry(store: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"FOUNDRY_STORE": str(store), "PATH": "/usr/bin:/bin"} | variables
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)


def test_every_line_of_a_run_is_an_object_where_json_is_asked_for(tmp_path):
    done = foundry(tmp_path, "run", "plan_searches", FOUNDRY_LOG_FORMAT="json")
    assert done.returncode == 0 and done.stdout.startswith("searches@")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[-1]["message"].startswith("plan_searches: built: ")
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    wrong = foundry(tmp_path, "run", "nothing\n{}", FOUNDRY_LOG_FORMAT="json")
    (line,) = [json.loads(line) for line in wrong.stderr.splitlines()]
    assert (wrong.returncode, line["level"]) == (2, "ERROR") and "no step is called" in line["message"]


def test_people_read_text_and_a_wrong_format_is_told(tmp_path):
    assert foundry(tmp_path, "show", "x").stderr.startswith("foundry: ")
    refused = foundry(tmp_path, "steps", FOUNDRY_LOG_FORMAT="xml")
    assert refused.returncode == 2 and "FOUNDRY_LOG_FORMAT='xml': " in refused.stderr


def test_nothing_that_a_file_says_reaches_the_terminal_as_a_code(tmp_path):
    rows = tmp_path / "sets" / "gooaq" / "pair" / "train.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text(json.dumps({"a\x1b]0;owned\x07\x1b[2J\u202e": "x"}))
    told = foundry(tmp_path / "store", "run", "read_general_pairs", "--set", f"source={tmp_path / 'sets'}").stderr
    assert "\\x1b]0;owned\\x07" in told and "\\u202e" in told
    assert all(c.isprintable() or c == "\n" for c in told)


def test_the_log_shows_codes_and_keeps_lines():
    record = logging.LogRecord(
        "x", logging.INFO, "", 0, "%s", ("a\x1b[31m\x9b\r\nb\té \udcff ه\u200c क्\u200dष\u3000\u202f\u202e",), None
    )
    assert TextLines().format(record).endswith("a\\x1b[31m\\x9b\\r\nb\té \\udcff ه\u200c क्\u200dष\u3000\u202f\\u202e")
