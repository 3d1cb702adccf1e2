"""Politeness: how often and how many at once one host is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipeline_tasks.corpus.fetching.outcomes import Refused

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
    """One host's turn-taking; a host that never answers is given up."""

    def __init__(self, name: str, manners: Manners, slots: asyncio.Semaphore) -> None:
        self.name = name
        self.delay_s = manners.delay_s
        self._longest_delay_s = manners.longest_delay_s
        self._slots = slots
        self._own = asyncio.Semaphore(manners.per_host)
        self._gate = asyncio.Lock()
        self._next = 0.0
        self._dead = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until this host may be asked, and hold one of the slots meanwhile.

        Raises:
            Refused: too many connections in a row have failed.
        """
        async with self._own:
            await self._begin()
            try:
                yield
            finally:
                self._slots.release()

    async def _begin(self) -> None:
        """Take a slot at a moment at which this host may be asked: while one was waited for, that may have changed."""
        async with self._gate:
            while True:
                while (wait_s := self._next - time.monotonic()) > 0:
                    await asyncio.sleep(wait_s)
                await self._slots.acquire()
                if self._dead < GIVE_UP_AFTER and self._next <= time.monotonic():
                    break
                self._slots.release()
                if self._dead >= GIVE_UP_AFTER:
                    raise Refused("host_down", f"{self.name} failed {GIVE_UP_AFTER} times in a row", passing=True)
            self._next = time.monotonic() + self.delay_s

    def pause(self, seconds: float) -> None:
        """Ask nothing for ``seconds``; the server said so."""
        self._next = max(self._next, time.monotonic() + seconds)

    def slow_down(self, delay_s: float) -> None:
        """Keep at least ``delay_s`` between requests, as robots.txt asks."""
        self.delay_s = max(self.delay_s, min(delay_s, self._longest_delay_s))

    def connected(self, well: bool) -> None:
        """Note whether a connection came about."""
        self._dead = 0 if well else self._dead + 1


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
