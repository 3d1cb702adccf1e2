"""Where batches are written down whose answers an endpoint has not given yet."""

from __future__ import annotations

import json
from collections.abc import Container

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.paid.response_store import answer_key
from pipeline_tasks.core.store import Store

FOLDER = "batches"
FAILED = f"{FOLDER}/failed.json"
"""How often requests have failed in a batch."""
_NAMED = 5


def batch_notes(store: Store) -> list[str]:
    """The key of each batch that is on its way."""
    return [key for key in store.keys(FOLDER) if key != FAILED]


def is_taken_in(note: bytes, answers: Container[str]) -> bool:
    """Whether all that a batch asked is among these keys of answers; not where its note says nothing of that."""
    try:
        ids = json.loads(note)["ids"]
        return bool(ids) and all(answer_key(one) in answers for one in ids)
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def check_no_batch_is_open(store: Store) -> None:
    """No answer is on its way that quotes what it was asked.

    Raises:
        TransientError: one may be.
    """
    if keys := batch_notes(store):
        some = ", ".join(keys[:_NAMED]) + (", …" if keys[_NAMED:] else "")
        raise TransientError(
            f"batches are on their way whose answers would bring back what goes: {some}. Let them end (`foundry batch "
            "STEP --wait`; each file names its step), or cancel them at the endpoint and delete these files; then "
            "erase again"
        )
