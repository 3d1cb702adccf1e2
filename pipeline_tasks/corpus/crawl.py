"""Fetch PDFs, politely bounded: one part of addresses at a time, each ending as a download or a reject."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pyarrow as pa
from pydantic import Field
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.datasets import DOWNLOADS, URLS

_MAGIC = b"%PDF-"
_MAGIC_WITHIN = 1024


class CrawlParams(StepParams):
    """Limits of a crawl."""

    refresh: str = Field("", description="any new value (a date) fetches everything again")
    max_bytes: int = Field(64 << 20, ge=1, description="largest PDF accepted, in bytes")
    attempts: int = Field(3, ge=1, description="tries per address before it is a reject")
    timeout_s: float = Field(30.0, gt=0, description="seconds without a byte before a try fails")
    concurrency: int = tuning(4, ge=1, description="addresses fetched at once")


@dataclass(eq=False)
class Refused(Exception):
    """Why an address gives no document."""

    reason: str
    detail: str


class _Busy(Exception):
    """The server may answer later."""


@step(reads={"urls": URLS}, writes=DOWNLOADS, kind="map")
def crawl(rows: pa.Table, params: CrawlParams, run: Run) -> Iterator[pa.Table]:
    """Fetch every address of a part once and keep the bytes that begin like a PDF.

    The first bytes decide, not the content type: an HTML page called .pdf is the reject ``not_pdf``. Others are
    ``http_404`` and the like, ``too_large``, ``unreachable``.
    """
    records = rows.to_pylist()
    limits = httpx.Limits(max_connections=params.concurrency)
    with (
        httpx.Client(timeout=params.timeout_s, follow_redirects=True, limits=limits) as client,
        ThreadPoolExecutor(params.concurrency) as pool,
        run.progress(len(records), "urls") as meter,
    ):
        for row, result in zip(records, pool.map(lambda r: _attempt(client, r["url"], params), records), strict=True):
            meter.advance()
            run.count("urls_fetched")
            if isinstance(result, Refused):
                run.reject(row["url_id"], result.reason, f"{row['url']} {result.detail}".strip())
                continue
            run.count("bytes_fetched", len(result))
            sha256 = hashlib.sha256(result).hexdigest()
            yield DOWNLOADS.table(
                [
                    {
                        "doc_id": short_id(row["url_id"], sha256),
                        "url_id": row["url_id"],
                        "url": row["url"],
                        "content": result,
                        "content_sha256": sha256,
                        "size_bytes": len(result),
                    }
                ]
            )


def _attempt(client: httpx.Client, url: str, params: CrawlParams) -> bytes | Refused:
    retrying = Retrying(
        stop=stop_after_attempt(params.attempts),
        wait=wait_exponential(multiplier=0.2, max=10),
        retry=retry_if_exception_type((httpx.TransportError, _Busy)),
        reraise=True,
    )
    try:
        content = retrying(_fetch, client, url, params)
        if _MAGIC not in content[:_MAGIC_WITHIN]:
            raise Refused("not_pdf", f"begins with {content[:12]!r}")
        return content
    except Refused as refused:
        return refused
    except _Busy as busy:
        return Refused(str(busy), f"after {params.attempts} attempts")
    except (httpx.InvalidURL, UnicodeError) as error:
        return Refused("bad_url", str(error))
    except (httpx.HTTPError, OSError) as error:
        return Refused("unreachable", f"{type(error).__name__}: {error} after {params.attempts} attempts")


def _fetch(client: httpx.Client, url: str, params: CrawlParams) -> bytes:
    if url.startswith("file:"):
        return _read_file(Path(unquote(urlsplit(url).path)), params.max_bytes)
    with client.stream("GET", url) as response:
        if response.status_code == 429 or response.status_code >= 500:
            raise _Busy(f"http_{response.status_code}")
        if response.status_code != 200:
            raise Refused(f"http_{response.status_code}", "")
        blocks, size = [], 0
        for block in response.iter_bytes():
            size += len(block)
            if size > params.max_bytes:
                raise Refused("too_large", f"more than {params.max_bytes} bytes")
            blocks.append(block)
        return b"".join(blocks)


def _read_file(path: Path, max_bytes: int) -> bytes:
    if not path.is_file():
        raise Refused("missing_file", str(path))
    if path.stat().st_size > max_bytes:
        raise Refused("too_large", f"{path.stat().st_size} bytes, at most {max_bytes}")
    return path.read_bytes()
