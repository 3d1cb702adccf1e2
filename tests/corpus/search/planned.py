"""A few planned searches, and what a stand-in was asked; for tests of the step."""

from __future__ import annotations

import json

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.paid.spending import today
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import SEARCHES
from tests.stores import put

KEY = "BSA-a-secret-of-the-test"
QUERIES = [f"flood place{i} .pdf" for i in range(12)]
QUICK = {"requests_per_s": 1000.0, "attempts": 2}


def planned(store: LocalStore, *parts: list[str]) -> None:
    rows = [[{"search_id": short_id(q), "query": q, "plan": "web", "terms": []} for q in part] for part in parts]
    put(store, SEARCHES, *rows)


def asked(there) -> list[str]:
    return [dict(params)["q"].removesuffix(" filetype:pdf") for _, params, _ in there.seen]


def next_day(store: LocalStore, provider: str = "brave") -> None:
    """What was spent so far was spent yesterday."""
    ledger = json.loads(store.read(f"spending/{provider}.json") or b"")
    ledger["days"]["2026-01-01"] = ledger["days"].pop(today())
    store.replace(f"spending/{provider}.json", json.dumps(ledger).encode())
