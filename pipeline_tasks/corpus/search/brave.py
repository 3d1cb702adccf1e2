"""Brave Search API: an index of its own, paid by the request.

Answers with status 200 are billed, errors are not. A page holds 20 results at most, and there are ten pages.

Source: https://api-dashboard.search.brave.com/app/documentation/web-search
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.provider import (
    LONGEST_DETAIL,
    Busy,
    Hit,
    Refused,
    Reply,
    Spent,
    hits,
    json_of,
    page_record,
)

PATH = "/res/v1/web/search"
PER_PAGE = 20
LAST_OFFSET = 9
KEY_HEADER = "X-Subscription-Token"


class Brave:
    """Pages of the web search; PDFs by the operator ``filetype:pdf``."""

    name = "brave"

    def __init__(self, asker: Asker, language: str, country: str) -> None:
        self._asker = asker
        self._fixed = [("country", country), ("search_lang", language), ("count", str(PER_PAGE))]
        self._fixed += [("result_filter", "web"), ("spellcheck", "false"), ("text_decorations", "false")]

    def search(self, query: str) -> Iterator[Hit]:
        """See :meth:`Provider.search`."""
        for offset in range(LAST_OFFSET + 1):
            params = [("q", f"{query} filetype:pdf"), *self._fixed, ("offset", str(offset))]
            answer = self._asker.get(PATH, params, _read)
            yield from hits(answer.content, answer.response_id)
            if not answer.content["more"]:
                return


def _read(reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        _raise(reply)
    answer = json_of(reply)
    if not isinstance(answer, dict) or answer.get("type") != "search":
        raise Refused("bad_answer", "the answer is no web search")
    web, query = answer.get("web"), answer.get("query")
    more = isinstance(query, dict) and query.get("more_results_available") is True
    if web is None:
        return page_record([], more=False)
    return page_record(web.get("results") if isinstance(web, dict) else None, more=more)


def _raise(reply: Reply) -> None:
    """What an error means; its code, not its status, tells a wrong key from a wrong query."""
    code, detail = _error(reply)
    if code.startswith("SUBSCRIPTION") or reply.status in (401, 403):
        raise InputError(f"Brave refuses the key ({code or reply.status}); set BRAVE_API_KEY to one of a search plan")
    if reply.status == 402 or code == "QUOTA_LIMITED":
        raise Spent(f"brave: the plan's quota is spent ({code or 402}); run it again when it is renewed, or raise it")
    if reply.status == 429:
        raise Busy("http_429", detail, reply.wait_s or _reset_s(reply))
    if 400 <= reply.status < 500 and reply.status != 408:
        raise Refused("refused", f"HTTP {reply.status} {code} {detail}".strip())


def _error(reply: Reply) -> tuple[str, str]:
    """Code and message of ``{"error": {"code": …, "detail": …}}``; empty where the answer is not of that form."""
    error: Any = {}
    with suppress(ValueError, RecursionError):
        body = json.loads(reply.text)
        error = body.get("error") if isinstance(body, dict) else {}
    said = error if isinstance(error, dict) else {}
    return clean(str(said.get("code") or ""), 40), clean(str(said.get("detail") or ""), LONGEST_DETAIL)


def _reset_s(reply: Reply) -> float:
    """Seconds until the next request of the shortest window: ``X-RateLimit-Reset: 1, 1419704``."""
    first = reply.headers.get("x-ratelimit-reset", "").partition(",")[0].strip()
    return float(first[:9]) if first.isascii() and first.isdigit() else 1.0
