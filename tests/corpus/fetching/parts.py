"""A fetcher put together by hand, for tests that look at its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.corpus.fetching.client import Client
from pipeline_tasks.corpus.fetching.fetch import Fetcher
from pipeline_tasks.corpus.fetching.guard import Guard, Resolver, system_resolver
from pipeline_tasks.corpus.fetching.hosts import Hosts, Manners
from pipeline_tasks.corpus.fetching.journal import Journal
from pipeline_tasks.corpus.fetching.outcomes import Limits, Outcome
from pipeline_tasks.corpus.fetching.robots import Robots
from pipeline_tasks.corpus.fetching.visit import Due, visit_all

PDF = b"%PDF-1.7\n" + b"a small document " * 20


def fetch_all(
    folder: Path,
    urls: Iterable[str],
    *,
    allow_hosts: Iterable[str] = ("127.0.0.1",),
    resolver: Resolver = system_resolver,
    attempts: int = 2,
    timeout_s: float = 5.0,
    time_limit_s: float = 20.0,
    longest_wait_s: float = 5.0,
    user_agent: str = "toy-bot/1.0 (+https://example.org)",
    delay_s: float = 0.0,
    per_host: int = 4,
) -> dict[str, Outcome]:
    """How each URL ends, by URL."""
    manners = Manners(delay_s, per_host, concurrency=16, longest_delay_s=1.0)
    folder.mkdir(exist_ok=True)
    journal = Journal(folder)

    async def go() -> None:
        client = Client(
            Guard(allow_hosts, resolver),
            Hosts(manners),
            user_agent=user_agent,
            timeout_s=timeout_s,
            longest_wait_s=longest_wait_s,
            connections=16,
        )
        limits = Limits(10_000, attempts, time_limit_s, max_redirects=5)
        robots = Robots(client, folder / "robots", user_agent, limits)
        async with client:
            due = [Due(short_id(url), url) for url in urls]
            await visit_all(due, Fetcher(client, robots, journal, limits), journal, manners, lambda: None)

    try:
        asyncio.run(go())
    finally:
        journal.close()
    return {url: journal.outcomes[short_id(url)] for url in urls}
