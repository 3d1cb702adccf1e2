"""The addresses to fetch: of a URL list (over HTTP or as a file), a folder of PDFs, and searches. Each appears once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, GrowthParams, step
from pipeline_tasks.corpus.search.folder import Folder
from pipeline_tasks.corpus.search.provider import Hit
from pipeline_tasks.corpus.search.url_list import UrlList
from pipeline_tasks.corpus.urls import canonical_url
from pipeline_tasks.datasets import SEARCH_RESULTS, URLS


class ListUrlsParams(GrowthParams):
    """Where the addresses come from."""

    source: str = Field(
        "", description="http(s) URL or file of a list, one address a line, or a folder of PDFs; empty: searches alone"
    )
    part_rows: int = Field(10_000, ge=1, description="addresses per part")


@step(
    reads={"results": From(SEARCH_RESULTS, optional=True)},
    writes=URLS,
    kind="reduce",
    grows=True,
    always=True,
    version="2",
)
def list_urls(inputs: Inputs, params: ListUrlsParams, run: Run) -> Iterator[pa.Table]:
    """List every address once; a refresh adds what is new and removes what is gone.

    Addresses are canonical (see :mod:`pipeline_tasks.corpus.urls`); lines in a list may be relative to the list itself.
    A second line with the same canonical URL is a reject ``duplicate_url``; one that is no http(s) address, or names a
    local file in a list from elsewhere, is ``bad_url``. Of results that several searches found, or the source names
    too, the first is listed and the counter ``results_listed_before`` counts the others.

    Raises:
        InputError: there is neither a source nor an input ``results``, or more than ``max_withdrawn`` would be removed.
    """
    if not params.source and "results" not in inputs:
        raise InputError("list_urls has no addresses; set source, or give it the input results of search_web")
    seen: dict[str, str] = {}
    remote = params.source.startswith(("http://", "https://"))
    for line in (hit.url for hit in _hits(params.source)):
        run.count("rows_in")
        url = canonical_url(line)
        if url is None or (remote and url.startswith("file:")):
            run.reject(short_id(line), "bad_url", line)
        elif url in seen:
            run.reject(short_id(url), "duplicate_url", line)
        else:
            seen[url] = params.source
    for url, provider in _results(inputs):
        run.count("rows_in")
        run.count("results_listed_before", url in seen)
        seen.setdefault(url, provider)
    rows = [{"url_id": short_id(url), "url": url, "source": seen[url]} for url in sorted(seen)]
    yield from difference(run, URLS, rows, params.part_rows)


def _results(inputs: Inputs) -> list[tuple[str, str]]:
    """Address and provider of every result, in an order that no rank decides: what was listed stays as it is."""
    tables = (table for version in inputs.each("results") for table in version.parts(["url", "provider"]))
    return sorted((row["url"], row["provider"]) for table in tables for row in table.to_pylist())


def _hits(source: str) -> Iterator[Hit]:
    if not source:
        return iter(())
    if source.startswith(("http://", "https://")):
        return UrlList().search(source)
    path = Path(source).expanduser().absolute()
    if path.is_dir():
        return Folder().search(str(path))
    if path.is_file():
        return UrlList().search(str(path))
    raise InputError(f"source={source!r} is no URL, file or folder; name a list of addresses or a folder of PDFs")
