"""What an account has spent, and no more than is allowed: one ledger for every process and machine that uses the store.

What a request may cost is counted before it is sent and settled when its price is known, so that no number of processes
passes a limit together. A request that is killed on its way stays counted: it may have been billed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.store import Store

Period = Literal["run", "day", "month", "ever"]
Most = Annotated[float | None, BeforeValidator(lambda value: None if value == "none" else value)]
"""A limit as a parameter: a number, or ``none``."""
REMEMBERED_RUNS = 1_000
"""So many runs keep their counts: those that were last written."""
_DIGITS = 9


@dataclass(frozen=True)
class Limit:
    """At most so much of one unit in one period.

    Attributes:
        name: the parameter or variable that sets it.
        unit: ``requests``, ``tokens`` or ``usd``.
        period: one run, a day or a month (UTC), or ever with this store.
        most: how much.
    """

    name: str
    unit: str
    period: Period
    most: float


def limits(period: Period, **named: tuple[str, float | None]) -> tuple[Limit, ...]:
    """A limit for each unit that has one: ``limits("run", usd=("max_run_usd", 20.0), tokens=("…", None))``."""
    return tuple(Limit(name, unit, period, most) for unit, (name, most) in named.items() if most is not None)


class LimitReached(InputError):
    """The next request might pass a limit, so it is not sent; ``limit`` says which."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        super().__init__(message)
        self.limit = limit


def _reached(account: str, limit: Limit, counted: float, wanted: float) -> LimitReached:
    remedies = {"day": "run it again tomorrow (UTC)", "month": f"a new month begins on {_next_month()} (UTC)"}
    remedy = remedies.get(limit.period, f"raise {limit.name}")
    if limit.period in ("run", "month"):
        remedy += f" ({counted:.6g} {limit.unit} are counted, and the next request may take {wanted:.3g})"
    return LimitReached(f"{account}: {limit.name}={limit.most:g} is spent; {remedy}", limit)


@dataclass(eq=False)
class Charge:
    """What was counted for one request.

    Attributes:
        amounts: unit -> how much.
        day: that it was counted on.
        wait_s: how long the account must be left alone first.
        open: whether it is to be settled.
    """

    amounts: dict[str, float]
    open: bool = False
    day: str = ""
    wait_s: float = 0.0
    done: bool = False
    refused: LimitReached | None = None


@dataclass(frozen=True)
class _Settled:
    day: str
    amounts: dict[str, float]


class Ledger:
    """Counts before it is spent; safe for many threads, processes and machines.

    Threads that come together share one change of the ledger, and corrections wait for the next change or
    :meth:`flush`: a bucket is slower than an endpoint.

    Args:
        store: where the ledger is, as ``spending/<account>.json``.
        account: who is paid.
        limits: what may be spent.
        run: names the run whose limits these are, over all its processes and tries.
        per_s: requests a second, of all together; None for no such limit.
    """

    def __init__(
        self, store: Store, account: str, limits: Iterable[Limit] = (), *, run: str = "", per_s: float | None = None
    ) -> None:
        self._store, self.account, self._limits = store, account, tuple(limits)
        self._run, self._per_s = run, per_s
        self._key = key_of(account)
        self._waiting: list[Charge | _Settled] = []
        self._open = self._settled = 0
        self._changed = threading.Condition()
        self._turn = threading.Lock()

    def take(self, **amounts: float) -> Charge:
        """Count one request for good; the caller waits ``wait_s`` before it is sent.

        Raises:
            LimitReached: it would pass a limit.
        """
        return self._commit_charge(Charge(amounts))

    def reserve(self, **amounts: float) -> Charge:
        """Count the most that a request may cost, until :meth:`settle` says what it did cost.

        Where only the open reservations of this ledger stand in the way, it waits for them.

        Raises:
            LimitReached: it might pass a limit.
        """
        while True:
            with self._changed:
                settled = self._settled
            try:
                return self._commit_charge(Charge(amounts, open=True))
            except LimitReached:
                with self._changed:
                    while self._settled == settled:
                        if not self._open:
                            raise
                        self._changed.wait()

    def settle(self, taken: Charge, **amounts: float) -> None:
        """What a reserved request did cost; units that are not named stay as they were counted."""
        self.correct(taken, **amounts)
        with self._changed:
            self._open -= 1
            self._settled += 1
            self._changed.notify_all()

    def correct(self, taken: Charge, **amounts: float) -> None:
        """What a request that was counted for good did cost; units that are not named stay as they were counted."""
        off = {unit: amount - taken.amounts[unit] for unit, amount in amounts.items() if amount != taken.amounts[unit]}
        if off:
            with self._changed:
                self._waiting.append(_Settled(taken.day, off))

    def pause(self, wait_s: float) -> None:
        """Let nobody ask for ``wait_s`` seconds."""
        with self._turn:
            self._rewrite(lambda state: _hold(state, max(_left_s(state), wait_s)))

    def flush(self) -> None:
        """Write down what is settled."""
        if self._waiting:
            self._commit(None)

    def _commit_charge(self, taken: Charge) -> Charge:
        self._commit(taken)
        if taken.refused:
            raise taken.refused
        return taken

    def _commit(self, mine: Charge | None) -> None:
        if mine is not None:
            with self._changed:
                self._waiting.append(mine)
        with self._turn:
            if mine is not None and mine.done:
                return
            with self._changed:
                changes, self._waiting = self._waiting, []
            try:
                self._rewrite(lambda state: self._apply(state, changes))
            except BaseException:
                with self._changed:
                    self._waiting = [change for change in changes if change is not mine] + self._waiting
                raise
            with self._changed:
                for change in changes:
                    if isinstance(change, Charge):
                        change.done = True
                        self._open += change.open and change.refused is None

    def _rewrite(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Write down what ``change`` makes of the ledger; anew where others wrote: who is suspended loses the lock."""
        written = False
        with self._store.alone(self._key):
            while not written:
                data = self._store.read(self._key)
                change(state := state_of(data, self._key))
                written = self._store.swap(self._key, data, canonical_json(state))

    def _apply(self, state: dict[str, Any], changes: Iterable[Charge | _Settled]) -> None:
        for change in changes:
            if isinstance(change, _Settled):
                self._add(state, change.day, change.amounts)
            else:
                self._count(state, change)

    def _count(self, state: dict[str, Any], change: Charge) -> None:
        change.day = today()
        change.refused = self._refusal(state, change.amounts)
        if change.refused:
            return
        self._add(state, change.day, change.amounts)
        change.wait_s = _left_s(state)
        if self._per_s is not None:
            _hold(state, change.wait_s + 1 / self._per_s)

    def _refusal(self, state: dict[str, Any], amounts: dict[str, float]) -> LimitReached | None:
        for limit in self._limits:
            counted, wanted = spent(state, limit.unit, limit.period, self._run), amounts.get(limit.unit, 0.0)
            if wanted and counted + wanted > limit.most + 1e-9:
                return _reached(self.account, limit, counted, wanted)
        return None

    def _add(self, state: dict[str, Any], day: str, amounts: dict[str, float]) -> None:
        into = [state["days"].setdefault(day, {})]
        if self._run:
            runs = dict(sorted(state.get("runs", {}).items(), key=lambda run: run[1].get("day", "")))  # for ties below
            last_ns = max((run.get("written_ns", 0) for run in runs.values()), default=0)
            into.append(runs.setdefault(self._run, {}))
            into[-1] |= {"day": day, "written_ns": max(time.time_ns(), last_ns + 1)}  # the last one by any clock
            state["runs"] = dict(sorted(runs.items(), key=lambda run: run[1].get("written_ns", 0))[-REMEMBERED_RUNS:])
        for counts in into:
            for unit, amount in amounts.items():
                counts[unit] = round(max(0.0, counts.get(unit, 0) + amount), _DIGITS)


def key_of(account: str) -> str:
    """Where the ledger of ``account`` is."""
    return f"spending/{account}.json"


def read_state(store: Store, key: str) -> dict[str, Any]:
    """What a ledger says.

    Raises:
        InputError: it is damaged, so that nobody knows what was spent.
    """
    return state_of(store.read(key), key)


def state_of(data: bytes | None, key: str) -> dict[str, Any]:
    """As :func:`read_state`, of a ledger's bytes."""
    if data is None:
        return {"days": {}, "next_at": 0.0, "held_at": 0.0}
    try:
        state = json.loads(data)
        spent(state, "usd", "ever")
        next_at = float(state["next_at"])
        return state | {"next_at": next_at, "held_at": float(state.get("held_at", next_at))}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{key} is no ledger ({type(error).__name__}): copy it from a backup, or delete it, and what was spent "
            "so far counts against no limit"
        ) from None


def _hold(state: dict[str, Any], wait_s: float) -> None:
    """Let the next one ask in ``wait_s``."""
    state["held_at"] = time.time()
    state["next_at"] = state["held_at"] + wait_s


def _left_s(state: dict[str, Any]) -> float:
    """How long the next one has to wait: by no clock longer than it was to be when it was written down."""
    return max(0.0, min(state["next_at"] - time.time(), state["next_at"] - state["held_at"]))


def spent(state: dict[str, Any], unit: str, period: Period, run: str = "") -> float:
    """How much of ``unit`` is counted in the ``period`` of now."""
    if period == "run":
        return state.get("runs", {}).get(run, {}).get(unit, 0.0)
    begins = {"day": today(), "month": today()[:7], "ever": ""}[period]
    return sum(counts.get(unit, 0.0) for day, counts in state["days"].items() if day.startswith(begins))


def today() -> str:
    """The date in UTC: what a daily budget counts by."""
    return datetime.now(UTC).date().isoformat()


def _next_month() -> date:
    return (datetime.now(UTC).date().replace(day=1) + timedelta(days=32)).replace(day=1)
