"""The addresses to fetch: of a URL list (over HTTP or as a file), a folder of PDFs, and searches. Each appears once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Set
from posixpath import basename
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import Field, field_validator

from pipeline_tasks.core.erasure.listed import REASON, erased_ids
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, GrowthParams, step, tuning
from pipeline_tasks.corpus.source import entries
from pipeline_tasks.corpus.urls import names_user
from pipeline_tasks.datasets import SEARCH_RESULTS, URLS

log = logging.getLogger(__name__)
_MOVED = (
    "under the same name with another folder, host or scheme: mount the folder at its old path, or list the old "
    "addresses, else all that was made of them is computed and paid for again"
)


class ListUrlsParams(GrowthParams):
    """Where the addresses come from."""

    source: str = Field(
        "", description="http(s) URL or file of a list, one address a line, or a folder of PDFs; empty: searches alone"
    )

    @field_validator("source")
    @classmethod
    def _is_fit_to_be_kept(cls, source: str) -> str:
        """A source is written into events and versions, so it holds no password."""
        if names_user(source):
            raise ValueError("it names a user or a password, which every version would tell; leave that out")
        return source

    part_rows: int = Field(10_000, ge=1, description="addresses per part")
    max_bytes: int = tuning(64 << 20, ge=1, description="largest list accepted, in bytes")
    time_limit_s: float = tuning(300.0, gt=0, description="seconds on the network for a list, all redirects together")


@step(
    reads={"results": From(SEARCH_RESULTS, optional=True)},
    writes=URLS,
    kind="reduce",
    grows=True,
    always=True,
    version="3",
)
def list_urls(inputs: Inputs, params: ListUrlsParams, run: Run) -> Iterator[pa.Table]:
    """List every address once; a refresh adds what is new and removes what is gone.

    Addresses are canonical (see :mod:`pipeline_tasks.corpus.urls`); lines in a list may be relative to the list itself.
    A second line with the same canonical URL is a reject ``duplicate_url``; one that is no http(s) address, or names a
    local file in a list from elsewhere, is ``bad_url``; one that names no file that this run may read is
    ``missing_file``. The last two tell their line's number and nothing of its content, and so does what was erased,
    which is ``erased``. Of results that several searches found, or the source names too, the first is listed and the
    counter ``results_listed_before`` counts the others.

    Raises:
        InputError: there is neither a source nor an input ``results``, the source cannot be read, or more than
            ``max_withdrawn`` would be removed.
        TransientError: the source's server is away, or too slow.
    """
    if not params.source and "results" not in inputs:
        raise InputError("list_urls has no addresses; set source, or give it the input results of search_web")
    seen: dict[str, str] = {}
    erased = erased_ids(run.store)
    for entry in entries(params.source, params.max_bytes, params.time_limit_s) if params.source else ():
        run.count("rows_in")
        if entry.reason:
            run.reject(short_id(params.source, entry.place), entry.reason, entry.place)
        elif entry.url in seen:
            detail = entry.place if short_id(entry.url) in erased else f"{entry.place}: {entry.url}"
            run.reject(short_id(entry.url), "duplicate_url", detail)
        else:
            seen[entry.url] = params.source
    for url, provider in _results(inputs):
        run.count("rows_in")
        run.count("results_listed_before", url in seen)
        seen.setdefault(url, provider)
    for url in [url for url in seen if short_id(url) in erased]:
        run.reject(short_id(url), REASON)
        del seen[url]
    if params.source and not run.counters["rows_in"]:
        log.warning("source=%r lists nothing: name a folder with *.pdf, or a file with addresses", params.source)
    before = run.previous.parts(["url"]) if run.previous else ()
    if n_moved := _moved({url for table in before for url in table["url"].to_pylist()}, seen.keys()):
        run.caution = f"{n_moved:,} of them come back {_MOVED}"
    rows = [{"url_id": short_id(url), "url": url, "source": seen[url]} for url in sorted(seen)]
    yield from difference(run, URLS, rows, params.part_rows)


def _results(inputs: Inputs) -> list[tuple[str, str]]:
    """Address and provider of every result, in an order that no rank decides: what was listed stays as it is."""
    tables = (table for version in inputs.each("results") for table in version.parts(["url", "provider"]))
    return sorted((row["url"], row["provider"]) for table in tables for row in table.to_pylist())


def _moved(before: Set[str], now: Set[str]) -> int:
    """How many addresses are gone whose file names new ones have.

    A name that an address which stays has, too, tells nothing: every issue of a journal may be ``issue.pdf``.
    """
    gone, new, stay = (Counter(map(_file_name, urls)) for urls in (before - now, now - before, before & now))
    return sum(n for name, n in (gone & new).items() if name and name not in stay)


def _file_name(url: str) -> str:
    parts = urlsplit(url)
    return f"{basename(parts.path)}?{parts.query}".strip("?")
