"""A list of addresses, one a line, over HTTP or as a file; lines may be relative to the list itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.corpus.search.provider import Hit


class UrlList:
    """Every line of a list that is neither empty nor a comment, as an absolute address where it can be one."""

    name = "list"

    def search(self, query: str) -> Iterator[Hit]:
        """Addresses in the list ``query``: an http(s) URL or the path of a file.

        Raises:
            InputError: the list is not there, or is no text.
            TransientError: its server is away.
        """
        remote = query.startswith(("http://", "https://"))
        base = query if remote else Path(query).as_uri()
        text = _fetch_list(query) if remote else _read_list(Path(query))
        yield from (Hit(_resolve(base, line)) for line in _content_lines(text))


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
