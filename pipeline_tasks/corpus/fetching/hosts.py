"""Politeness: how often and how many at once one host is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipeline_tasks.corpus.fetching.outcomes import Busy, Refused

GIVE_UP_AFTER = 10


@dataclass(frozen=True)
class Manners:
    """How a crawl behaves.

    Attributes:
        delay_s: seconds between two requests to a host, at least.
        per_host: requests to a host at once.
        concurrency: requests at once over all hosts.
        longest_delay_s: a host that wants longer pauses than this is asked this often.
    """

    delay_s: float
    per_host: int
    concurrency: int
    longest_delay_s: float


class Host:
    """One host's turn-taking; one that never answers, or wants to be left alone, is given up in this crawl."""

    def __init__(self, name: str, manners: Manners, slots: asyncio.Semaphore) -> None:
        self.name = name
        self.delay_s = manners.delay_s
        self._longest_delay_s = manners.longest_delay_s
        self._slots = slots
        self._own = asyncio.Semaphore(manners.per_host)
        self._gate = asyncio.Lock()
        self._next = 0.0
        self._away: set[object] = set()  # since the last answer: addresses, and tries that any address may count for
        self._left_s = 0.0

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[None]:
        """Wait until this host may be asked for ``url``, and hold one of the slots meanwhile.

        Raises:
            Refused: it is to be left alone, or was away too many times in a row, or for too many addresses.
        """
        async with self._own:
            await self._begin()
            try:
                yield
                self._away.clear()
            except Busy as busy:
                if busy.away:
                    self._away.add(url if busy.away == "address" else object())
                raise
            except Refused:
                self._away.clear()
                raise
            finally:
                self._slots.release()

    async def _begin(self) -> None:
        """Take a slot at a moment at which this host may be asked: while one was waited for, that may have changed."""
        async with self._gate:
            while True:
                if given_up := self._given_up():
                    raise given_up
                if (wait_s := self._next - time.monotonic()) > 0:
                    await asyncio.sleep(wait_s)
                    continue
                await self._slots.acquire()
                if self._next <= time.monotonic() and not self._given_up():
                    break
                self._slots.release()
            self._next = time.monotonic() + self.delay_s

    def pause(self, seconds: float) -> None:
        """Ask nothing for ``seconds``; the server said so."""
        self._next = max(self._next, time.monotonic() + seconds)

    def slow_down(self, delay_s: float) -> None:
        """Keep at least ``delay_s`` between requests, as robots.txt asks."""
        self.delay_s = max(self.delay_s, min(delay_s, self._longest_delay_s))

    def leave(self, seconds: float) -> None:
        """Ask nothing any more in this crawl; the server said to be left alone for so long."""
        self._left_s = max(self._left_s, seconds)

    def _given_up(self) -> Refused | None:
        if self._left_s:
            return Refused("left_alone", f"{self.name} asks to be left alone for {self._left_s:.0f} s", passing=True)
        if len(self._away) >= GIVE_UP_AFTER:
            why = f"{self.name} gave no answer or said 'later' {GIVE_UP_AFTER} times or for so many addresses in a row"
            return Refused("host_down", why, passing=True)
        return None


class Hosts:
    """Every host that is met, by ``host:port``."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._slots = asyncio.Semaphore(manners.concurrency)
        self._hosts: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        """The host called ``name``."""
        if name not in self._hosts:
            self._hosts[name] = Host(name, self._manners, self._slots)
        return self._hosts[name]
