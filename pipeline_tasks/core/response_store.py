"""Every paid answer, of a language model or a search provider, kept under the sha256 of its request: bought once, ever.

Two processes may want the same answer at the same moment. Before paying, a process *claims* the request; the other
waits for the answer to appear. A claim names its process and an end: one whose process is gone, or whose end has
passed, is void, and the next claim takes its place.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from pipeline_tasks.core.ids import canonical_json

LONGEST_CLAIM_QUEUE = 100
CLAIM_POLL_S = 0.25


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
        self._turns: dict[str, threading.Lock] = {}

    def get_or_buy(
        self, response_id: str, buy: Callable[[], dict[str, Any]], *, claim_s: float = 0.0
    ) -> tuple[dict[str, Any], bool]:
        """The stored answer and True; else what ``buy`` gives, which is stored first, and False.

        One thread of this store buys an answer at a time, the others wait for it.

        Args:
            response_id: the request.
            buy: asks for the answer; its errors pass through, and nothing is stored.
            claim_s: where not 0, one process buys at a time, and no other waits longer than so many seconds.
        """
        with self._turns.setdefault(response_id, threading.Lock()):
            record = self._stored_or_claimed(response_id, claim_s)
            cached = record is not None
            found = record if record is not None else self.write(response_id, buy())
        self._turns.pop(response_id, None)
        return found, cached

    def _stored_or_claimed(self, response_id: str, claim_s: float) -> dict[str, Any] | None:
        """The stored answer, or None once it is this process's turn to buy it."""
        while True:
            record = self.read(response_id)
            if record is not None or not claim_s:
                return record
            if self.claim(response_id, for_s=claim_s):
                return self.read(response_id)
            time.sleep(CLAIM_POLL_S)

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
