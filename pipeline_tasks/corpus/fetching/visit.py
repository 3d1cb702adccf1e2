"""All addresses of a crawl, many hosts at once and each host politely, until every one of them has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from pipeline_tasks.corpus.fetching.fetch import Fetcher
from pipeline_tasks.corpus.fetching.hosts import Manners
from pipeline_tasks.corpus.fetching.journal import Journal
from pipeline_tasks.corpus.fetching.outcomes import PriorFetch

_HOSTS_PER_SLOT = 8


@dataclass(frozen=True)
class Due:
    """An address to ask for, and what is known of it."""

    url_id: str
    url: str
    known: PriorFetch | None = None


async def visit_all(
    due: Iterable[Due], fetcher: Fetcher, journal: Journal, manners: Manners, done: Callable[[], None]
) -> None:
    """Bring every address to an outcome in ``journal``; ``done`` is called after each.

    Only so many hosts are open at a time, so that memory does not grow with their number.
    """
    hosts: dict[str, list[Due]] = {}
    for item in due:
        hosts.setdefault(urlsplit(item.url).netloc, []).append(item)
    open_hosts = asyncio.Semaphore(manners.concurrency * _HOSTS_PER_SLOT)

    async def work(queue: Iterator[Due]) -> None:
        for item in queue:
            journal.note(await fetcher.fetch(item.url_id, item.url, item.known))
            done()

    async def visit(items: list[Due]) -> None:
        try:
            queue = iter(items)
            async with asyncio.TaskGroup() as crew:
                for _ in range(min(manners.per_host, len(items))):
                    crew.create_task(work(queue))
        finally:
            open_hosts.release()

    try:
        async with asyncio.TaskGroup() as group:
            for items in hosts.values():
                await open_hosts.acquire()
                group.create_task(visit(items))
    except BaseExceptionGroup as failures:
        raise _first(failures) from failures


def _first(failure: BaseException) -> BaseException:
    """What went wrong first, out of its groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
