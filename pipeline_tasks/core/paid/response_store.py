"""Every paid answer, of a language model or a search provider, kept under the sha256 of its request: bought once, ever.

Two processes may want the same answer at the same moment: one of them asks while the other waits. One that is killed
lets go at once, or after a lease where it ran on another machine. What is lost then is the answer that was on its way.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.store import Store

log = logging.getLogger(__name__)
PATIENCE_S = (2.0, 5.0, 15.0, 30.0, 60.0)
"""Pauses before a bought answer is offered again to a store that does not take it."""
BROKEN_OFF = ("abort", "error", "insufficient_system_resource", "network_error")
"""Finish reasons of answers that the endpoint itself did not end, as vLLM, OpenRouter, DeepSeek and GLM call it."""
Record = dict[str, Any]
Keep = Callable[[Record], Record]
"""Stores an answer; what it gives is the one that is stored, which another buyer's may be."""


class ResponseStore:
    """Answers by request, over a store; safe for many threads, processes and machines."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns: dict[str, threading.Lock] = {}

    def get_or_buy(
        self, response_id: str, buy: Callable[[Keep], Record], *, alone: bool = False
    ) -> tuple[Record, bool]:
        """The stored answer and True; else what ``buy`` has bought and stored, and False.

        One thread of this store buys an answer at a time, the others wait for it.

        Args:
            response_id: the request.
            buy: asks for the answer, and gives what the function made of it that stores it; its errors pass through.
            alone: one process buys at a time, on whichever machine, and the others wait for it.
        """
        with self._turns.setdefault(response_id, threading.Lock()):
            record = self.read(response_id)
            if record is not None:
                found = record, True
            elif alone:
                with self._store.alone(f"answer-{response_id}"):
                    found = self._found_or_bought(response_id, buy)
            else:
                found = buy(partial(self._write_patiently, response_id)), False
        self._turns.pop(response_id, None)
        return found

    def _found_or_bought(self, response_id: str, buy: Callable[[Keep], Record]) -> tuple[Record, bool]:
        record = self.read(response_id)
        return (buy(partial(self._write_patiently, response_id)), False) if record is None else (record, True)

    def read(self, response_id: str) -> Record | None:
        """The whole answer to the request named ``response_id``; None where there is none, or a part of one."""
        record = self.lying(response_id)
        return None if record is None or _is_broken_off(record) else record

    def lying(self, response_id: str) -> Record | None:
        """What lies at that request's place, also where the endpoint broke it off; None where nobody can read it."""
        data = self._store.read(answer_key(response_id))
        try:
            record = None if data is None else json.loads(data)
        except ValueError:
            return None
        return record if isinstance(record, dict) else None

    def has_any(self, response_ids: Iterable[str]) -> bool:
        """Whether one of these requests has its answer."""
        named = {answer_key(one): one for one in response_ids}
        return any(self.read(named[key]) is not None for key in self._store.present(named))

    def read_all(self, response_ids: Iterable[str]) -> list[Record]:
        """The answers to these requests; none where one of them has none."""
        found = []
        for one in response_ids:
            record = self.read(one)
            if record is None:
                return []
            found.append(record)
        return found

    def write(self, response_id: str, record: Record) -> Record:
        """Store ``record`` unless a whole answer is there already; returns the one that is stored.

        What was broken off, or torn by a power cut, gives way to it; what that had cost is added, as it was paid.
        """
        key = answer_key(response_id)
        if self._store.create(key, canonical_json(record)):
            return record
        if whole := self.read(response_id):
            return whole
        with self._store.alone(f"replace-{response_id}"):
            if whole := self.read(response_id):
                return whole
            if lost := (self.lying(response_id) or {}).get("cost_usd"):
                record = record | {"cost_usd": record["cost_usd"] + lost}
            log.warning("%s is no whole answer; another one, bought since, takes its place", key)
            self._store.delete(key)
            created = self._store.create(key, canonical_json(record))
            return record if created else self.read(response_id) or record

    def _write_patiently(self, response_id: str, record: Record) -> Record:
        """:meth:`write` with patience: the store may be starting again, and this was paid for."""
        for pause_s in PATIENCE_S:
            try:
                return self.write(response_id, record)
            except TransientError as error:
                log.warning("an answer is not stored yet, next try in %g s: %s", pause_s, error)
                time.sleep(pause_s)
        return self.write(response_id, record)


def answer_key(response_id: str) -> str:
    """Where the answer to that request is."""
    return f"responses/{response_id[:2]}/{response_id}.json"


def _is_broken_off(record: Record) -> bool:
    answer = record.get("response")
    return isinstance(answer, dict) and answer.get("finish_reason") in BROKEN_OFF
