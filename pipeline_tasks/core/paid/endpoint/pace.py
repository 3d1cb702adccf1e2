"""How many requests are open at once, and when none may be sent: one pace for all threads that ask an endpoint.

Each "too many" halves what may be open. Each answer then allows one more, up to three quarters of what was too many,
and from there each round of answers one more: what was sure is soon had again, and what was not is approached slowly.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline_tasks.core.errors import TransientError

log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_WORTH_SAYING_S = 1.0
_SURE = 0.75


class Stopped(Exception):
    """Another thread found out that nothing more is to be asked."""


def backoff_s(tries: int) -> float:
    """A pause that doubles with every try, and that no two threads share."""
    longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(tries - 1, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311


class Pace:
    """Safe for many threads.

    Args:
        host: the endpoint, for messages.
        most: requests open at once, at most.
        patience_s: how long an endpoint may go on saying that there are too many requests, and answer none.
        say: told why nothing happens.
    """

    def __init__(self, host: str, most: int, patience_s: float, say: Callable[[str], object] = log.info) -> None:
        self.allowed = float(most)
        self.say = say
        self._host, self._most, self._patience_s = host, most, patience_s
        self._changed = threading.Condition()
        self._sure = float(most)
        self._open = self._cuts = 0
        self._resume_at = self._cut_at = 0.0
        self._busy_since: float | None = None
        self._stopped = False

    @contextmanager
    def turn(self) -> Iterator[float]:
        """Wait for a place; the block gets the moment at which it has it.

        Raises:
            Stopped: nothing more is to be asked.
        """
        with self._changed:
            while True:
                now = time.monotonic()
                if self._stopped:
                    raise Stopped
                if now < self._resume_at:
                    self._changed.wait(self._resume_at - now)
                elif self._open >= int(self.allowed):
                    self._changed.wait()
                else:
                    break
            self._open += 1
        try:
            yield now
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def answered(self) -> None:
        """A request was answered: a little more may be asked."""
        with self._changed:
            self._busy_since, self._cuts = None, 0
            more = 1 if self.allowed < self._sure else 1 / self.allowed
            self.allowed = min(self._most, self.allowed + more)

    def too_many(self, began: float, asked_s: float | None) -> float:
        """The endpoint refused a request because there are too many; the seconds of a new pause, 0 if there is one.

        Requests that were open together are one reason, not many: only the first of them halves what is allowed.

        Args:
            began: of the request.
            asked_s: how long it asks to be left alone; None or 0 where it does not say.

        Raises:
            TransientError: that is longer than there is patience.
        """
        with self._changed:
            if began >= self._cut_at:
                self._cuts += 1
                self._sure = _SURE * self.allowed
                self.allowed = max(1.0, self.allowed / 2)
                self._cut_at = time.monotonic()
            wait_s = asked_s or backoff_s(self._cuts)
            return wait_s if self._hold(wait_s, f"{self._host} has too many requests") else 0.0

    def hold(self, wait_s: float) -> None:
        """Ask nothing for ``wait_s`` seconds: somebody else was told so.

        Raises:
            TransientError: that is longer than there is patience.
        """
        with self._changed:
            self._hold(wait_s, f"{self._host} asked another process to wait")

    def _hold(self, wait_s: float, why: str) -> bool:
        now = time.monotonic()
        self._busy_since = now if self._busy_since is None else self._busy_since
        waited_s = now - self._busy_since
        if waited_s + wait_s > self._patience_s:
            raise TransientError(
                f"{why}, and asks to wait {wait_s:.0f} s after {waited_s:.0f} s without an answer: that is longer than "
                f"patience_s={self._patience_s:g}; what was answered is kept, try again later"
            )
        longer = now + wait_s > self._resume_at + _WORTH_SAYING_S
        if longer:
            self.say(f"{why}: waiting {wait_s:.0f} s, then {int(self.allowed)} at once")
        self._resume_at = max(self._resume_at, now + wait_s)
        self._changed.notify_all()
        return longer

    def rest(self, seconds: float) -> None:
        """Sleep, unless nothing more is to be asked.

        Raises:
            Stopped: it is so.
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._stopped, seconds):
                raise Stopped

    def stop(self) -> None:
        """From now on nothing more is asked; who waits is woken."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
