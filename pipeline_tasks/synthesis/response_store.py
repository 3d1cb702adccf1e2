"""Every LLM answer, kept whole under the sha256 of its request, so that none is ever paid for twice.

Two processes may want the same answer at the same moment. Before paying, a process *claims* the request; the other
waits for the answer to appear. A claim names its process and an end: one whose process is gone, or whose end has
passed, is void, and the next claim takes its place.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Protocol

from pipeline_tasks.core.ids import canonical_json

LONGEST_CLAIM_QUEUE = 100


class ExclusiveStore(Protocol):
    """What is needed of a store: whole reads, and creation with one winner."""

    def read(self, key: str) -> bytes | None:
        """The bytes of ``key``, or None."""

    def create(self, key: str, data: bytes) -> bool:
        """Write ``key`` unless it exists; True for the one writer that made it."""


class ResponseStore:
    """Answers by request, over an :class:`ExclusiveStore`; safe for many threads, processes and machines."""

    def __init__(self, store: ExclusiveStore) -> None:
        self._store = store

    def read(self, response_id: str) -> dict[str, Any] | None:
        """The stored answer to the request named ``response_id``, or None."""
        data = self._store.read(f"{_stem(response_id)}.json")
        return None if data is None else json.loads(data)

    def write(self, response_id: str, record: dict[str, Any]) -> dict[str, Any]:
        """Store ``record`` unless an answer is there already; returns the one that is stored."""
        if self._store.create(f"{_stem(response_id)}.json", canonical_json(record)):
            return record
        return self.read(response_id) or record

    def claim(self, response_id: str, *, for_s: float) -> bool:
        """Whether this process is the one that may ask for the answer now.

        Args:
            response_id: the request.
            for_s: seconds after which the claim is void, even if its process lives on.
        """
        mine = canonical_json({"host": socket.gethostname(), "pid": os.getpid(), "until": time.time() + for_s})
        for turn in range(LONGEST_CLAIM_QUEUE):
            key = f"{_stem(response_id)}.claim-{turn}"
            if self._store.create(key, mine):
                return True
            if _holds(json.loads(self._store.read(key) or b"{}")):
                return False
        return True


def _stem(response_id: str) -> str:
    return f"responses/{response_id[:2]}/{response_id}"


def _holds(claim: dict[str, Any]) -> bool:
    """Whether another process still stands behind ``claim``."""
    if claim.get("until", 0.0) < time.time():
        return False
    if claim["host"] != socket.gethostname():
        return True
    return claim["pid"] != os.getpid() and _alive(claim["pid"])


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
