"""The addresses to fetch: a URL list (over HTTP or as a file) or a folder of PDFs. Exact URLs appear once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.corpus.urls import canonical_url
from pipeline_tasks.datasets import URLS


class ListUrlsParams(StepParams):
    """Where the addresses come from."""

    source: str = Field(description="http(s) URL or file of a list, one address a line, or a folder of PDFs")
    part_rows: int = Field(10_000, ge=1, description="addresses per part")


@step(reads={}, writes=URLS, kind="reduce", grows=True, always=True, version="2")
def list_urls(inputs: Inputs, params: ListUrlsParams, run: Run) -> Iterator[pa.Table]:
    """List every address once; a refresh adds what is new and removes what is gone.

    Addresses are canonical (see :mod:`pipeline_tasks.corpus.urls`); lines in a list may be relative to the list itself.
    A second line with the same canonical URL is a reject ``duplicate_url``; one that is no http(s) address, or names a
    local file in a list from elsewhere, is ``bad_url``.
    """
    seen: set[str] = set()
    rows = []
    remote = params.source.startswith(("http://", "https://"))
    for line in _lines(params.source):
        run.count("rows_in")
        url = canonical_url(line)
        if url is None or (remote and url.startswith("file:")):
            run.reject(short_id(line), "bad_url", line)
        elif url in seen:
            run.reject(short_id(url), "duplicate_url", line)
        else:
            seen.add(url)
            rows.append({"url_id": short_id(url), "url": url, "source": params.source})
    yield from difference(run, URLS, sorted(rows, key=lambda row: row["url"]), params.part_rows)


def _lines(source: str) -> list[str]:
    if source.startswith(("http://", "https://")):
        return [_resolve(source, line) for line in _content_lines(_fetch_list(source))]
    path = Path(source).expanduser().absolute()
    if path.is_dir():
        return sorted(p.as_uri() for p in path.rglob("*") if p.is_file() and p.suffix.lower() == ".pdf")
    if path.is_file():
        return [_resolve(path.as_uri(), line) for line in _content_lines(_read_list(path))]
    raise InputError(f"source={source!r} is no URL, file or folder; name a list of addresses or a folder of PDFs")


def _resolve(base: str, line: str) -> str:
    try:
        return urljoin(base, line)
    except ValueError:
        return line


def _read_list(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"source={str(path)!r} is not UTF-8 text ({error}); name a list with one address a line"
        ) from error


def _content_lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _fetch_list(url: str) -> str:
    try:
        response = httpx.get(url, timeout=30, follow_redirects=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise InputError(f"source={url!r} is no address: {error}; check its spelling") from error
    except httpx.HTTPError as error:
        raise TransientError(f"the list {url} cannot be fetched: {error}; check that the server runs") from error
    if response.status_code == 429 or response.status_code >= 500:
        raise TransientError(f"the list {url} answers HTTP {response.status_code}; try again later")
    if response.status_code != 200:
        raise InputError(f"the list {url} answers HTTP {response.status_code}; check source=")
    return response.text
