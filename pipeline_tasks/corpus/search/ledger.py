"""Rate and budget of one provider, shared by every process that uses the store."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.store import Store
from pipeline_tasks.corpus.search.provider import Spent

LONGEST_WAIT_S = 300.0


@dataclass(frozen=True)
class Limits:
    """What may be asked of a provider; None is no limit.

    Units: requests a second; requests and US dollars a day (UTC), and ever with this store.
    """

    per_s: float = 1.0
    requests_per_day: int | None = None
    requests: int | None = None
    usd_per_day: float | None = None
    usd: float | None = None


class Ledger:
    """Counts requests and dollars before they are spent, so that no number of processes exceeds a limit.

    A request that is killed on its way stays counted: the provider may have billed it.
    """

    def __init__(self, store: Store, provider: str, price_usd: float, limits: Limits) -> None:
        self.price_usd = price_usd
        self._store, self._provider, self._limits = store, provider, limits
        self._key = f"spending/{provider}.json"

    def take(self) -> None:
        """Count one request and wait for its turn.

        Raises:
            Spent: a limit is reached; the message names it.
        """
        with self._store.alone(self._key):
            state = self._read()
            day = state["days"].setdefault(today(), {"requests": 0, "usd": 0.0})
            self._check(state, day)
            day["requests"] += 1
            day["usd"] = round(day["usd"] + self.price_usd, 6)
            turn = max(time.time(), state["next_at"])
            state["next_at"] = turn + 1 / self._limits.per_s
            self._store.replace(self._key, canonical_json(state))
        time.sleep(max(0.0, turn - time.time()))

    def refund(self) -> None:
        """The last request was answered with an error, which no provider bills: its dollars are free again."""
        if not self.price_usd:
            return
        with self._store.alone(self._key):
            state = self._read()
            day = state["days"].setdefault(today(), {"requests": 0, "usd": 0.0})
            day["usd"] = round(max(0.0, day["usd"] - self.price_usd), 6)
            self._store.replace(self._key, canonical_json(state))

    def pause(self, wait_s: float) -> None:
        """Nobody asks for ``wait_s`` seconds.

        Raises:
            TransientError: that is longer than a process should sit and wait.
        """
        if wait_s > LONGEST_WAIT_S:
            raise TransientError(f"{self._provider} asks to wait {wait_s:.0f} s; run the step again then")
        with self._store.alone(self._key):
            state = self._read()
            state["next_at"] = max(state["next_at"], time.time() + wait_s)
            self._store.replace(self._key, canonical_json(state))

    def _read(self) -> dict[str, Any]:
        return json.loads(self._store.read(self._key) or b'{"days":{},"next_at":0}')

    def _check(self, state: dict[str, Any], day: dict[str, Any]) -> None:
        total = {unit: sum(d[unit] for d in state["days"].values()) for unit in ("requests", "usd")}
        limits = self._limits
        for name, spent, limit in (
            ("max_requests_per_day", day["requests"] + 1, limits.requests_per_day),
            ("max_requests", total["requests"] + 1, limits.requests),
            ("max_usd_per_day", day["usd"] + self.price_usd, limits.usd_per_day),
            ("max_usd", total["usd"] + self.price_usd, limits.usd),
        ):
            if limit is not None and spent > limit + 1e-9:
                remedy = "run it again tomorrow (UTC)" if name.endswith("day") else f"raise {name}"
                raise Spent(f"{self._provider}: {name}={limit:g} is spent; {remedy}")


def today() -> str:
    """The date in UTC: what a daily budget counts by."""
    return datetime.now(UTC).date().isoformat()
