"""SearXNG: a metasearch engine on one's own server, asked in JSON.

Its ``settings.yml`` must list ``json`` under ``search: formats``. What engines it asks, and through which it is
refused, is the server's affair: where even the first page is empty, engines that did not answer make it no answer.
After a page with results an empty one is the end, whoever is silent: some engine may always be.

Source: https://docs.searxng.org/dev/search_api.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.provider import LONGEST_DETAIL, Busy, Hit, Refused, Reply, hits, json_of, kept

LAST_PAGE = 10


class SearXNG:
    """Pages of ``/search?format=json``; PDFs by the operator ``filetype:pdf``, which it hands on to its engines."""

    name = "searxng"

    def __init__(self, asker: Asker, language: str) -> None:
        self._asker, self._language = asker, language

    def search(self, query: str) -> Iterator[Hit]:
        """See :meth:`Provider.search`."""
        for page in range(1, LAST_PAGE + 1):
            params = [("q", f"{query} filetype:pdf"), ("format", "json"), ("categories", "general")]
            params += [("language", self._language), ("pageno", str(page))]
            answer = self._asker.get("/search", params, _read_first if page == 1 else _read)
            yield from hits(answer.content, answer.response_id)
            if not answer.content["more"]:
                return


def _read_first(reply: Reply) -> dict[str, Any]:
    page = _read(reply)
    if not page["hits"] and (silent := json_of(reply).get("unresponsive_engines")):
        raise Busy("engines_unresponsive", clean(str(silent), LONGEST_DETAIL))
    return page


def _read(reply: Reply) -> dict[str, Any]:
    if reply.status == 403:
        raise InputError("SearXNG answers HTTP 403; list json under search: formats in its settings.yml")
    answer = json_of(reply)
    if not isinstance(answer, dict):
        raise Refused("bad_answer", f"the answer is {type(answer).__name__}, not an object")
    found = answer.get("results")
    return kept(found, more=bool(found))
