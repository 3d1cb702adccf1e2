"""What the lineage knows of a run beside what it made."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import toy

from pipeline_tasks import __version__
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore


def ask(store: LocalStore, sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in query(store, sql).to_pylist()]


def test_a_run_says_which_code_made_it(tmp_path, monkeypatch):
    settings.cache_clear()
    monkeypatch.setenv("BUILT_IMAGE", "retriever-foundry/cpu:9.9@0123abcd")
    log = EventLog(LocalStore(tmp_path), "busy", "1")
    log.emit("START", inputs={}, output=None, facts={"dataset": "urls"})
    settings.cache_clear()
    said = ask(LocalStore(tmp_path), "SELECT release, image FROM steps")
    assert said == [(__version__, "retriever-foundry/cpu:9.9@0123abcd")]


def test_a_run_says_what_it_ran_on(store):
    toy.make(store, toy.toy_label)
    sql = "SELECT python, threads, processor <> '', packages['pyarrow'], packages['no such'] FROM steps LIMIT 1"
    python = ".".join(map(str, sys.version_info[:3]))
    assert ask(store, sql) == [(python, settings().threads, True, pa.__version__, None)]


def test_events_from_before_runs_said_what_they_ran_on_still_fold(tmp_path):
    store = LocalStore(tmp_path)
    toy.make(store, toy.toy_urls, names=("a",))
    for path in (tmp_path / "lineage" / "events").iterdir():
        event = json.loads(path.read_text())
        event["run"]["facets"]["foundry"].pop("runtime")
        path.write_text(json.dumps(event))
    told = ask(store, "SELECT status, python, device, threads, processor, packages FROM steps")
    assert told == [("complete", None, None, None, None, None)]
    assert ask(store, "FROM problems") == []
