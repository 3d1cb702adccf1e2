"""A refresh costs what changed: requests are conditional, bodies are sent, and texts taken, for new documents only."""

from __future__ import annotations

from collections import Counter
from email.utils import parsedate_to_datetime
from functools import cache
from http.server import BaseHTTPRequestHandler

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.pointing import move
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.extract_text import extract_text
from pipeline_tasks.corpus.list_urls import list_urls
from tests.corpus.pdfs import pdf
from tests.corpus.web import Page, Web, answer, document, serving
from tests.stores import go, reasons, rejects, rows

N = 40
LARGE = 500
SETTINGS = {"delay_s": 0, "per_host": 8, "attempts": 2, "part_rows": 100}
MAY, JUNE = "Fri, 01 May 2026 10:00:00 GMT", "Mon, 01 Jun 2026 10:00:00 GMT"


@cache
def words(name: object) -> bytes:
    """The same bytes every time."""
    lines = (f"Document {name} tells the people of the town what to do at gate {i}." for i in range(12))
    return pdf([((50, 60), "\n".join(lines))])


def dated(body: bytes, when: str) -> Page:
    """A document that is sent to who has none, or one from before ``when``."""

    def page(handler: BaseHTTPRequestHandler, before: int) -> None:
        has = handler.headers.get("If-Modified-Since")
        new = has is None or parsedate_to_datetime(has) < parsedate_to_datetime(when)
        answer(200 if new else 304, body if new else b"", **{"Last-Modified": when})(handler, before)

    return page


class Site:
    """A list of documents that changes; counts the documents that it sends."""

    def __init__(self, web: Web, store: LocalStore, size: int) -> None:
        self.web, self.store, self.sent = web, store, Counter[str]()
        self.put(*range(size))

    def put(self, *names: object, version: str = "") -> None:
        for name in names:
            self.web.pages[f"/{name}.pdf"] = document(words(f"{name}{version}"), self.sent)

    def list(self, names: object) -> None:
        lines = "".join(f"/{name}.pdf\n" for name in names)
        self.web.pages["/urls.txt"] = answer(200, lines.encode(), "text/plain")
        go(self.store, list_urls, source=f"{self.web.url}/urls.txt")

    def crawl(self, refresh: str = "", **values: object) -> Outcome:
        self.sent.clear()
        self.web.hits.clear()
        self.web.asked.clear()
        return go(self.store, crawl, **SETTINGS | {"refresh": refresh} | values)

    def urls(self, *names: object) -> set[str]:
        return {f"{self.web.url}/{name}.pdf" for name in names}


@pytest.fixture
def site(store: LocalStore, request: pytest.FixtureRequest):
    """Crawled once."""
    size = getattr(request, "param", N)
    with serving({}) as web:
        site = Site(web, store, size)
        site.list(range(size))
        outcome = site.crawl()
        assert outcome.counters["fetched"] == outcome.counters["rows_out"] == size == site.sent.total()
        yield site


def crawled(store: LocalStore, version: str = "downloads") -> set[str]:
    return {u for part in Version.open(store, Ref.parse(version)).parts(["url"]) for u in part["url"].to_pylist()}


@pytest.mark.parametrize("site", [LARGE], indirect=True)
def test_five_new_three_changed_two_withdrawn(site: Site, store: LocalStore):
    go(store, extract_text)
    before = load_manifest(store, Ref.parse("downloads"))
    new, changed, gone = [f"new{i}" for i in range(5)], [3, 30, 450], [7, 40]
    site.put(*new)
    site.put(*changed, version=" revised")
    site.web.pages |= {"/7.pdf": answer(404), "/40.pdf": answer(410)}
    site.list([*range(LARGE), *new])
    outcome = site.crawl("2026-02-01")
    counted = {name: outcome.counters[name] for name in ("urls", "fetched", "changed", "withdrawn", "unchanged")}
    assert counted == {"urls": LARGE + 5, "fetched": 5, "changed": 3, "withdrawn": 2, "unchanged": LARGE - 5}
    assert set(site.sent) == {f"/{name}.pdf" for name in [*new, *changed]} and site.sent.total() == 8
    asked = {path: headers for path, headers in site.web.asked if path != "/robots.txt"}
    assert len(asked) == outcome.counters["requests"] - 1 == LARGE + 5
    assert {path for path, headers in asked.items() if "If-None-Match" not in headers} == {f"/{n}.pdf" for n in new}
    after = load_manifest(store, outcome.ref)
    assert after.parts[: len(before.parts)] == before.parts
    assert sum(part.rows for part in after.parts[len(before.parts) :]) == 8 and after.rows == LARGE + 3
    assert after.inputs["previous"] == [str(before.ref)]
    wanted = {*range(LARGE), *new} - {*gone}
    assert crawled(store) == site.urls(*wanted)
    assert crawled(store, str(before.ref)) == site.urls(*range(LARGE)), "the older version keeps what is gone"
    assert reasons(store, "downloads") == {"http_404": 1, "http_410": 1}

    texts = go(store, extract_text)
    assert texts.counters["pages"] == 8 and texts.counters["parts_reused"] == len(before.parts)
    found = {row["url"]: row["text"] for row in rows(store, "texts")}
    assert found.keys() == site.urls(*wanted) and "revised" in found[f"{site.web.url}/30.pdf"]


def test_the_same_request_asks_nothing(site: Site):
    assert site.crawl().reused and not site.web.asked
    site.crawl("2026-02-01")
    assert site.web.asked
    assert site.crawl("2026-02-01").reused and not site.web.asked
    assert site.crawl().reused and not site.web.asked, "what is fresher than asked for is fresh enough"


@pytest.mark.parametrize("refresh", ["", "2026-02-01"])
def test_a_longer_list_costs_the_new_addresses_only(site: Site, refresh):
    if refresh:
        assert site.crawl(refresh).counters["unchanged"] == N
    site.put("new")
    site.list([*range(N), "new"])
    outcome = site.crawl(refresh)
    assert outcome.counters["fetched"] == 1 and dict(site.sent) == {"/new.pdf": 1}
    assert set(site.web.hits) == {"/robots.txt", "/new.pdf"}


def test_what_left_the_list_is_withdrawn_without_a_request(site: Site, store: LocalStore):
    site.list(range(2, N))
    outcome = site.crawl()
    assert outcome.counters["withdrawn"] == 2 and crawled(store) == site.urls(*range(2, N)) and not site.web.asked
    site.list(range(N))
    assert site.crawl().counters["fetched"] == 2 and crawled(store) == site.urls(*range(N))


def test_a_refresh_without_a_change_makes_no_version(site: Site, store: LocalStore):
    before = load_manifest(store, Ref.parse("downloads"))
    outcome = site.crawl("2026-02-01")
    assert outcome.reused and outcome.ref == before.ref and outcome.counters["unchanged"] == N and not site.sent


def test_a_server_without_validators_costs_bodies_but_no_version(site: Site, store: LocalStore):
    site.web.pages |= {f"/{i}.pdf": answer(200, words(str(i))) for i in range(N)}
    outcome = site.crawl("2026-02-01")
    assert outcome.reused and outcome.counters["unchanged"] == N and outcome.counters["bytes"] > 0


def test_a_validator_that_is_not_ascii_is_stored_and_not_sent_back(site: Site, store: LocalStore):
    odd = {"ETag": '"\u00e4"', "Last-Modified": "Mo, 02 M\u00e4r 2026 10:00:00 GMT"}
    site.web.pages["/1.pdf"] = answer(200, words("1 revised"), **odd)
    site.web.pages["/2.pdf"] = answer(200, words("2 revised"), **odd | {"Last-Modified": MAY})
    assert site.crawl("1").counters["changed"] == 2
    kept = {row["url"]: (row["etag"], row["last_modified"]) for row in rows(store, "downloads")}
    assert kept[f"{site.web.url}/1.pdf"] == tuple(odd.values())
    outcome = site.crawl("2")
    assert outcome.reused and outcome.counters["unchanged"] == N
    asked = dict(site.web.asked)
    assert not {"If-None-Match", "If-Modified-Since"} & asked["/1.pdf"].keys()
    assert "If-None-Match" not in asked["/2.pdf"] and asked["/2.pdf"]["If-Modified-Since"] == MAY


def test_validators_go_to_the_address_that_gave_them_and_to_no_other(site: Site, store: LocalStore):
    june, may = dated(words("june"), JUNE), dated(words("may"), MAY)
    site.web.pages |= {"/latest.pdf": answer(302, Location="/june.pdf"), "/june.pdf": june, "/may.pdf": may}
    site.list([*range(N), "latest"])

    def latest() -> tuple[str, bytes]:
        (row,) = (row for row in rows(store, "downloads") if row["url"] == f"{site.web.url}/latest.pdf")
        return row["fetched_url"], row["content"]

    def sent() -> dict[str, str | None]:
        asked = {path: headers.get("If-Modified-Since") for path, headers in site.web.asked}
        return {path: asked[path] for path in ("/latest.pdf", "/june.pdf", "/may.pdf") if path in asked}

    assert site.crawl().counters["fetched"] == 1
    assert site.crawl("1").reused and sent() == {"/latest.pdf": None, "/june.pdf": JUNE}
    assert latest() == (f"{site.web.url}/june.pdf", words("june"))
    site.web.pages["/latest.pdf"] = answer(302, Location="/may.pdf")
    assert site.crawl("2").counters["changed"] == 1 and sent() == {"/latest.pdf": None, "/may.pdf": None}
    assert latest() == (f"{site.web.url}/may.pdf", words("may")), "an older file in another place is another document"
    assert site.crawl("3").reused and sent() == {"/latest.pdf": None, "/may.pdf": MAY}
    site.web.pages["/latest.pdf"] = dated(words("latest"), MAY)
    assert site.crawl("4").counters["changed"] == 1
    assert latest() == (f"{site.web.url}/latest.pdf", words("latest"))


def test_a_304_that_nobody_asked_for_keeps_the_document(site: Site, store: LocalStore):
    site.web.pages |= {"/1.pdf": answer(302, Location="/moved.pdf"), "/moved.pdf": answer(304)}
    outcome = site.crawl("2026-02-01")
    assert outcome.reused and outcome.counters["kept_after_error"] == 1 and outcome.counters["unchanged"] == N - 1
    assert crawled(store) == site.urls(*range(N)) and not rejects(store, "downloads")


@pytest.mark.parametrize("trouble", [answer(500), answer(403), answer(302, Location="/1.pdf")])
def test_a_passing_trouble_keeps_the_document(site: Site, store: LocalStore, trouble):
    site.web.pages["/1.pdf"] = trouble
    outcome = site.crawl("2026-02-01")
    assert outcome.counters["kept_after_error"] == 1 and outcome.reused
    assert crawled(store) == site.urls(*range(N)) and not rejects(store, "downloads")


@pytest.mark.parametrize(
    ("page", "reason"), [(answer(200, b"<html>moved"), "not_pdf"), (answer(200, bytes(50_000)), "too_large")]
)
def test_what_is_no_document_any_more_is_withdrawn(site: Site, store: LocalStore, page, reason):
    site.web.pages["/1.pdf"] = page
    outcome = site.crawl("2026-02-01", max_bytes=40_000)
    assert outcome.counters["withdrawn"] == 1
    (reject,) = rejects(store, "downloads").values()
    assert reject["row_id"] == short_id(f"{site.web.url}/1.pdf") and reject["reason"] == reason
    assert reject["detail"].startswith(f"{site.web.url}/1.pdf") and reject["detail"].endswith(", 1 attempt")


def test_a_site_that_lost_everything_for_a_day_loses_nothing_here(site: Site, store: LocalStore):
    before = load_manifest(store, Ref.parse("downloads"))
    site.web.pages = {"/urls.txt": site.web.pages["/urls.txt"]}
    with pytest.raises(InputError, match=rf"withdraw {N} of the {N} rows of downloads@.* {site.web.url}/\d+\.pdf"):
        site.crawl("2026-02-01")
    assert load_manifest(store, Ref.parse("downloads")) == before
    allowed = site.crawl("2026-02-01", max_withdrawn=1)
    assert allowed.counters["withdrawn"] == N and site.web.hits.total() == N + 1, "it may be back: all are asked again"


@pytest.mark.parametrize("trouble", [answer(404), None])
def test_the_same_crawl_goes_on_once_a_site_that_was_away_is_back(site: Site, store: LocalStore, trouble):
    before, pages = load_manifest(store, Ref.parse("downloads")), dict(site.web.pages)
    site.put(3, version=" revised")
    revised = site.web.pages["/3.pdf"]
    if trouble:
        site.web.pages |= {f"/{i}.pdf": trouble for i in range(N) if i != 3}
    else:
        site.web.pages["/robots.txt"] = answer(200, b"User-agent: *\nDisallow: /")
    with pytest.raises(InputError, match="would withdraw"):
        site.crawl("2026-02-01")
    site.web.pages = pages | {"/3.pdf": revised}
    outcome = site.crawl("2026-02-01", max_withdrawn=1)
    counted = {name: outcome.counters[name] for name in ("withdrawn", "changed", "unchanged", "resumed")}
    assert counted == {"withdrawn": 0, "changed": 1, "unchanged": N - 1, "resumed": 1 if trouble else 0}
    assert load_manifest(store, outcome.ref).rows == before.rows and ("/3.pdf" in site.web.hits) == (trouble is None)


def test_a_bad_list_is_undone_by_pointing_back_and_nothing_is_fetched_again(site: Site, store: LocalStore):
    good = load_manifest(store, Ref.parse("downloads")).ref
    site.list(range(N - 10))
    assert site.crawl().counters["withdrawn"] == 10
    move(store, good, ancestors=True)
    site.list(range(N))
    outcome = site.crawl()
    assert outcome.reused and outcome.ref == good and not site.web.asked and crawled(store) == site.urls(*range(N))


def test_any_number_of_documents_may_change(site: Site):
    site.put(*range(N), version=" revised")
    assert site.crawl("2026-02-01").counters["changed"] == N


def test_what_was_refused_is_asked_again_on_a_refresh_or_under_other_limits(site: Site, store: LocalStore):
    site.put("late")
    late, site.web.pages["/late.pdf"] = site.web.pages["/late.pdf"], answer(500)
    site.list([*range(N), "late"])
    assert site.crawl().counters["rows_rejected"] == 1 and site.web.hits["/late.pdf"] == 2
    site.list([*range(1, N), "late"])
    assert site.crawl().counters["rows_rejected"] == 1 and not site.web.asked, "its reject is carried over"
    assert rejects(store, "downloads")[short_id(f"{site.web.url}/late.pdf")]["detail"].endswith("2 attempts")
    assert site.crawl(max_bytes=1 << 20).counters["rows_rejected"] == 1
    assert set(site.web.hits) == {"/robots.txt", "/late.pdf"}
    site.web.pages["/late.pdf"] = late
    assert site.crawl("2026-02-01").counters["fetched"] == 1 and not rejects(store, "downloads")


def test_a_change_and_its_return(site: Site, store: LocalStore):
    first = rows(store, "downloads")
    site.put(5, version=" revised")
    site.crawl("1")
    site.put(5)
    outcome = site.crawl("2")
    assert outcome.counters["changed"] == 1
    assert sorted(rows(store, "downloads"), key=str) == sorted(first, key=str)
