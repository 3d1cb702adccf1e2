"""Fetch PDFs from a hostile web: every address ends as a document or a reject, and a refresh costs what changed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.erasure.listed import REASON, erased_ids
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.partitions import PartitionedRun
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import GrowthParams, step, tuning
from pipeline_tasks.corpus.fetching.client import Client
from pipeline_tasks.corpus.fetching.fetch import Fetcher
from pipeline_tasks.corpus.fetching.guard import Guard
from pipeline_tasks.corpus.fetching.history import History
from pipeline_tasks.corpus.fetching.hosts import Hosts, Manners
from pipeline_tasks.corpus.fetching.journal import Journal
from pipeline_tasks.corpus.fetching.outcomes import Limits, Outcome
from pipeline_tasks.corpus.fetching.robots import Robots
from pipeline_tasks.corpus.fetching.visit import Due, visit_all
from pipeline_tasks.datasets import DOWNLOADS, URLS

_GONE = ("http_404", "http_410", "http_451", "missing_file", "not_pdf", "robots_denied", "too_large", REASON)
_ROBOTS = "robots"


class CrawlParams(GrowthParams):
    """What is asked for, what is accepted, and how politely."""

    refresh: str = Field("", description="a new value (a date) asks for every known address again")
    max_bytes: int = Field(64 << 20, ge=1, description="largest PDF accepted, in bytes")
    attempts: int = Field(3, ge=1, description="tries per address before it is a reject")
    timeout_s: float = Field(30.0, gt=0, description="seconds without a byte before a try fails")
    time_limit_s: float = Field(300.0, gt=0, description="seconds on the network per address, all tries together")
    max_redirects: int = Field(10, ge=0, description="redirects followed")
    longest_wait_s: float = Field(
        120.0,
        ge=0,
        description="longest Retry-After that is waited for; after a longer one the server is not asked again",
    )
    user_agent: str = Field(
        "retriever-foundry",
        pattern=r"^[!-.0-~][ -~]*$",
        description="User-Agent header and name in robots.txt; say where you can be reached",
    )
    part_rows: int = Field(16, ge=1, description="documents per part")
    part_bytes: int = Field(64 << 20, ge=1, description="bytes of documents per part")
    concurrency: int = tuning(16, ge=1, description="concurrent requests")
    per_host: int = tuning(2, ge=1, description="concurrent requests to one host")
    delay_s: float = tuning(
        1.0, ge=0, description="politeness delay: seconds between two requests to one host, at least"
    )
    longest_delay_s: float = tuning(
        60.0, ge=0, description="longest Crawl-delay of robots.txt that is kept to, in seconds"
    )

    def identity(self) -> dict[str, Any]:
        """The parameters, and the hosts that the operator allows: what was refused before may pass now."""
        return super().identity() | {"allow_hosts": list(settings().allowed_hosts)}

    @property
    def manners(self) -> Manners:
        """How hosts are treated."""
        return Manners(self.delay_s, self.per_host, self.concurrency, self.longest_delay_s)

    @property
    def limits(self) -> Limits:
        """What one address may cost."""
        return Limits(self.max_bytes, self.attempts, self.time_limit_s, self.max_redirects)


@step(reads={"urls": URLS}, writes=DOWNLOADS, kind="reduce", grows=True, version="2", resumes=True)
def crawl(inputs: Inputs, params: CrawlParams, run: PartitionedRun) -> Iterator[pa.Table]:
    """Fetch what is new, ask whether the rest changed where ``refresh`` is new, withdraw what is gone.

    Addresses that end without a document are rejects; see docs/crawling.md for the reasons. The first bytes decide what
    a document is, not its name or content type.
    """
    listed = [
        (row["url_id"], row["url"]) for part in inputs["urls"].parts(["url_id", "url"]) for row in part.to_pylist()
    ]
    history, erased = History.read(run, params), erased_ids(run.store)
    for url_id in [url_id for url_id, _ in listed if url_id in erased]:
        run.reject(url_id, REASON)
    listed = [(url_id, url) for url_id, url in listed if url_id not in erased]
    due = [Due(url_id, url, history.known.get(url_id)) for url_id, url in listed if history.asks(url_id)]
    journal = Journal(run.scratch)
    if journal.forget_refusals(history.known):
        shutil.rmtree(run.scratch / _ROBOTS, ignore_errors=True)  # what a site forbids may be another hour's, too
    try:
        left = [item for item in due if item.url_id not in journal.outcomes]
        run.count("resumed", len(due) - len(left))
        with run.progress(len(due), "urls") as meter:
            meter.advance(len(due) - len(left))
            run.count("requests", asyncio.run(_fetch_all(left, params, run, journal, meter.advance)))
        rows = _rows(listed, history, journal, run, erased)
        yield from _parts(rows, journal, params)
        history.keep_validators(run, journal.outcomes)
    finally:
        journal.close()


async def _fetch_all(due: list[Due], params: CrawlParams, run: Run, journal: Journal, done: Callable[[], None]) -> int:
    """Bring every address to an outcome in ``journal``; the number of requests sent."""
    client = Client(
        Guard(settings().allowed_hosts),
        Hosts(params.manners),
        user_agent=params.user_agent,
        timeout_s=params.timeout_s,
        longest_wait_s=params.longest_wait_s,
        connections=params.concurrency,
    )
    robots = Robots(client, run.scratch / _ROBOTS, params.user_agent, params.limits)
    async with client:
        await visit_all(due, Fetcher(client, robots, journal, params.limits), journal, params.manners, done)
    return client.requests


def _rows(
    listed: list[tuple[str, str]], history: History, journal: Journal, run: Run, erased: Collection[str]
) -> Iterator[dict]:
    """New rows without their bytes, in the order of the list; what is gone is withdrawn, what gave nothing a reject."""
    run.count("urls", len(listed))
    for url_id in history.known.keys() - {url_id for url_id, _ in listed}:
        run.withdraw(history.known[url_id].doc_id)
    for url_id, url in listed:
        known, outcome = history.known.get(url_id), journal.outcomes.get(url_id)
        if outcome is None:
            if url_id in history.refused and known is None:
                run.reject(url_id, *history.refused[url_id])
        elif outcome.end == "refused":
            _refuse(url, outcome, history, run)
        elif outcome.sha256 in erased:
            _refuse(url, replace(outcome, reason=REASON), history, run)
        elif known and (outcome.end == "unchanged" or outcome.sha256 == known.sha256):
            run.count("unchanged")
            run.count("bytes", outcome.size_bytes)
        else:
            run.count("changed" if known else "fetched")
            run.count("bytes", outcome.size_bytes)
            if known:
                run.withdraw(known.doc_id, replaced=True)
            yield _row(url, outcome)
    run.count("withdrawn", len(run.withdrawn) - run.counters["changed"])


def _refuse(url: str, outcome: Outcome, history: History, run: Run) -> None:
    known = history.known.get(outcome.url_id)
    run.count("robots_denied", outcome.reason == "robots_denied")
    if known and outcome.reason not in _GONE:
        run.count("kept_after_error")
        return
    if known:
        run.withdraw(known.doc_id)
    tries = f"{outcome.attempts} attempt{'s' if outcome.attempts > 1 else ''}"
    run.reject(outcome.url_id, outcome.reason, ", ".join(filter(None, (f"{url} {outcome.detail}".strip(), tries))))


def _row(url: str, outcome: Outcome) -> dict:
    return {
        "doc_id": short_id(outcome.url_id, outcome.sha256),
        "url_id": outcome.url_id,
        "url": url,
        "content_sha256": outcome.sha256,
        "size_bytes": outcome.size_bytes,
        "status": outcome.status,
        "fetched_url": outcome.fetched_url,
        "etag": outcome.etag,
        "last_modified": outcome.last_modified,
    }


def _parts(rows: Iterator[dict], journal: Journal, params: CrawlParams) -> Iterator[pa.Table]:
    """Tables of at most ``part_rows`` rows and ``part_bytes`` bytes, or of one row."""
    batch: list[dict] = []
    size_bytes = 0
    for row in rows:
        if batch and (len(batch) == params.part_rows or size_bytes + row["size_bytes"] > params.part_bytes):
            yield _table(batch, journal)
            batch, size_bytes = [], 0
        batch.append(row)
        size_bytes += row["size_bytes"]
    if batch:
        yield _table(batch, journal)


def _table(batch: list[dict], journal: Journal) -> pa.Table:
    contents = (journal.body(row["content_sha256"]).read_bytes() for row in batch)
    return DOWNLOADS.table([row | {"content": content} for row, content in zip(batch, contents, strict=True)])
