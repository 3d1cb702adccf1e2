"""SearXNG: a metasearch engine on one's own server, asked in JSON.

Its ``settings.yml`` must list ``json`` under ``search: formats``. What engines it asks, and through which it is
refused, is the server's affair: where even the first page is empty, engines that did not answer make it no answer.
After a page with results an empty one is the end, also where an engine is silent that was so on the first page: some
engine may always be. One that has fallen silent since may have more, so then it is no answer either.

Source: https://docs.searxng.org/dev/search_api.html
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.provider import LONGEST_DETAIL, Busy, Hit, Refused, Reply, hits, json_of, page_record

LAST_PAGE = 10


class SearXNG:
    """Pages of ``/search?format=json``; PDFs by the operator ``filetype:pdf``, which it hands on to its engines."""

    name = "searxng"

    def __init__(self, asker: Asker, language: str) -> None:
        self._asker, self._language = asker, language

    def search(self, query: str) -> Iterator[Hit]:
        """See :meth:`Provider.search`."""
        silent: list[str] = []
        for page in range(1, LAST_PAGE + 1):
            params = [("q", f"{query} filetype:pdf"), ("format", "json"), ("categories", "general")]
            params += [("language", self._language), ("pageno", str(page))]
            answer = self._asker.get("/search", params, partial(_read, silent))
            yield from hits(answer.content, answer.response_id)
            if not answer.content["more"]:
                return
            if page == 1:
                silent = answer.content.get("silent", [])


def _read(known: list[str], reply: Reply) -> dict[str, Any]:
    """What is kept of a page; ``known``: the engines that were silent on the first."""
    if reply.status == 403:
        raise InputError("SearXNG answers HTTP 403; list json under search: formats in its settings.yml")
    answer = json_of(reply)
    if not isinstance(answer, dict):
        raise Refused("bad_answer", f"the answer is {type(answer).__name__}, not an object")
    found, engines = answer.get("results"), answer.get("unresponsive_engines")
    silent = {_name(engine): engine for engine in engines} if isinstance(engines, list) else {}
    page = page_record(found, more=bool(found)) | {"silent": list(silent)}
    if not found and (new := [silent[name] for name in silent if name not in known]):
        raise Busy("engines_unresponsive", clean(str(new), LONGEST_DETAIL))
    return page


def _name(engine: Any) -> str:
    """That of an engine, which comes with the reason."""
    return clean(str(engine[0] if isinstance(engine, list) and engine else engine), LONGEST_DETAIL)
