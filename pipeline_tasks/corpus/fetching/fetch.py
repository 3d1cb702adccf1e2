"""One address, from its robots.txt over redirects and retries to an outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.local_files import may_read, path_of
from pipeline_tasks.corpus.fetching.body import Sink, copy_file, receive
from pipeline_tasks.corpus.fetching.client import Answer, Budget, Client
from pipeline_tasks.corpus.fetching.journal import Journal
from pipeline_tasks.corpus.fetching.outcomes import Busy, Limits, Outcome, PriorFetch, Refused
from pipeline_tasks.corpus.fetching.redirects import follow
from pipeline_tasks.corpus.fetching.retry import retrying
from pipeline_tasks.corpus.fetching.robots import Robots


class Fetcher:
    """Brings addresses to their end; bodies go to the journal's files.

    Args:
        client: sends requests.
        robots: what may be asked.
        journal: where bodies are kept.
        limits: what an address may cost.
    """

    def __init__(self, client: Client, robots: Robots, journal: Journal, limits: Limits) -> None:
        self._client, self._robots, self._journal, self._limits = client, robots, journal, limits

    async def fetch(self, url_id: str, url: str, known: PriorFetch | None) -> Outcome:
        """How ``url`` ends; where it is ``known``, its server is asked whether it changed."""
        if url.startswith("file:"):
            return await self._file(url_id, url)
        visit = _Visit(url_id, url, known, Budget(self._limits.time_limit_s))
        try:
            return await retrying(self._limits.attempts)(self._try, visit)
        except (Refused, Busy) as error:
            passing = isinstance(error, Busy) or error.passing
            return Outcome(url_id, "refused", error.reason, error.detail, attempts=visit.attempts, passing=passing)
        except (OSError, MemoryError, FoundryError):  # of this machine: the client makes its own of a network's
            raise
        except Exception as error:  # whatever a hostile answer provokes ends its own address alone
            detail = f"{type(error).__name__}: {str(error)[:200]}"
            return Outcome(url_id, "refused", "bad_response", detail, attempts=visit.attempts, passing=True)

    async def _try(self, visit: _Visit) -> Outcome:
        visit.attempts += 1
        asked, most = partial(_conditions, visit.known), self._limits.max_redirects
        async with follow(self._client, visit.url, visit.budget, asked, most, self._robots.check) as (url, answer):
            return await self._end(visit, url, answer)

    async def _end(self, visit: _Visit, url: str, answer: Answer) -> Outcome:
        facts: dict[str, Any] = {
            "attempts": visit.attempts,
            "status": answer.status,
            "fetched_url": url,
            "etag": answer.headers.get("etag", ""),
            "last_modified": answer.headers.get("last-modified", ""),
        }
        if answer.status == 304 and _conditions(visit.known, url):
            return Outcome(visit.url_id, "unchanged", **facts)
        if answer.status != 200:
            raise Refused(f"http_{answer.status}")
        with _Receiving(self._journal, self._limits.max_bytes) as sink:
            sha256 = await receive(answer.chunks, answer.headers, sink, self._limits.max_bytes)
            size_bytes = sink.size_bytes
            sink.keep(sha256)
        return Outcome(visit.url_id, "fetched", sha256=sha256, size_bytes=size_bytes, **facts)

    async def _file(self, url_id: str, url: str) -> Outcome:
        try:
            with _open_file(url) as file, _Receiving(self._journal, self._limits.max_bytes) as sink:
                sha256 = await asyncio.to_thread(copy_file, file, sink)
                sink.keep(sha256)
                return Outcome(url_id, "fetched", sha256=sha256, size_bytes=sink.size_bytes, fetched_url=url)
        except Refused as refused:
            return Outcome(url_id, "refused", refused.reason, refused.detail)


class _Receiving(Sink):
    """A sink whose file is the journal's where it is kept, and is gone otherwise."""

    def __init__(self, journal: Journal, max_bytes: int) -> None:
        self._journal, self._path = journal, journal.unfinished()
        super().__init__(self._path, max_bytes)

    def __enter__(self) -> _Receiving:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._path.unlink(missing_ok=True)

    def keep(self, sha256: str) -> None:
        """Hand the file, complete, to the journal."""
        self.close()
        self._journal.keep(self._path, sha256)


@dataclass
class _Visit:
    """An address on its way, and what was spent on it."""

    url_id: str
    url: str
    known: PriorFetch | None
    budget: Budget
    attempts: int = 0


def _open_file(url: str) -> BinaryIO:
    path = path_of(url)
    if not may_read(path):
        raise Refused("unreadable_file", "it is not below FOUNDRY_SOURCE_ROOTS")
    try:
        if path.is_file():
            return path.open("rb")
    except OSError as error:
        raise Refused("unreadable_file", f"{type(error).__name__}: {error.strerror}") from error
    raise Refused("missing_file", str(path))


def _conditions(known: PriorFetch | None, url: str) -> dict[str, str]:
    """Headers that ask ``url`` whether it still has what is known; none where another address gave that."""
    if known is None or url != known.fetched_url:
        return {}
    asked = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
    return {name: value for name, value in asked.items() if value and value.isascii() and value.isprintable()}
