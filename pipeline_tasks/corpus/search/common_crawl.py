"""Common Crawl's URL index: which PDFs one of its crawls met below a host or path.

An index of addresses knows no words: a query is a pattern of URLs, ``*.fema.gov`` (a domain with its sub-domains) or
``fema.gov/pdf/*`` (a path). The server is one machine that all share: ask slowly, and each pattern once.

Source: https://index.commoncrawl.org and https://pywb.readthedocs.io/en/latest/manual/cdxserver_api.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.provider import Hit, Refused, Reply, hits, json_of, page_record, parsed

FILTERS = [("filter", "=mime-detected:application/pdf"), ("filter", "=status:200")]


class CommonCrawl:
    """Captures of a pattern that were detected as PDFs, in the order of the index; titles it has none.

    Args:
        asker: of the index server.
        crawl: name of a crawl, such as ``CC-MAIN-2026-43``.

    Raises:
        InputError: no crawl is named.
    """

    name = "common_crawl"

    def __init__(self, asker: Asker, crawl: str) -> None:
        if not crawl:
            raise InputError(
                "crawl is empty; name one of https://index.commoncrawl.org/collinfo.json, such as CC-MAIN-2026-43"
            )
        self._asker, self._path = asker, f"/{crawl}-index"

    def search(self, query: str) -> Iterator[Hit]:
        """See :meth:`Provider.search`."""
        pattern = [("url", query), ("output", "json")]
        count = self._asker.get(self._path, [*pattern, ("showNumPages", "true")], _read_count)
        seen: set[str] = set()
        for page in range(count.content["pages"]):
            answer = self._asker.get(self._path, [*pattern, ("fl", "url"), *FILTERS, ("page", str(page))], _read)
            for hit in hits(answer.content, answer.response_id):
                if hit.url not in seen:
                    seen.add(hit.url)
                    yield hit


def _read_count(reply: Reply) -> dict[str, Any]:
    """``{"pages": 85, "pageSize": 5, "blocks": 423}``; 404 where the crawl met nothing of the pattern.

    An index that pywb does not know is another 404, or an empty answer.
    """
    if reply.status == 404 or (reply.status == 200 and not reply.text.strip()):
        return {"pages": 0} if _no_captures(reply) else _unknown_crawl()
    answer = json_of(reply)
    pages = answer.get("pages") if isinstance(answer, dict) else None
    if not isinstance(pages, int) or isinstance(pages, bool) or pages < 0:
        raise Refused("bad_answer", "the answer has no number of pages")
    return {"pages": pages}


def _read(reply: Reply) -> dict[str, Any]:
    """One JSON object a line; 404 where the filters leave nothing of the page."""
    if reply.status == 404 and _no_captures(reply):
        return page_record([], more=True)
    if reply.status != 200:
        json_of(reply)
    lines = [parsed(line) for line in reply.text.splitlines() if line.strip()]
    strange = [line for line in lines if not isinstance(line, dict) or "url" not in line]
    if strange:
        raise Refused("bad_answer", f"{clean(str(strange[0]), 60)!r} is no capture")
    return page_record(list({str(line["url"]): line for line in lines}.values()), more=True)


def _no_captures(reply: Reply) -> bool:
    return "No Captures found" in reply.text


def _unknown_crawl() -> dict[str, Any]:
    raise InputError("Common Crawl has no such crawl; https://index.commoncrawl.org/collinfo.json lists all")
