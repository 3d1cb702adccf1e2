"""Each provider against its stand-in: what goes over the wire, how it pages, what its errors come to."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.paid.spending import Ledger
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.asker import LARGEST_REPLY, Asker
from pipeline_tasks.corpus.search.brave import KEY_HEADER, Brave
from pipeline_tasks.corpus.search.common_crawl import CommonCrawl
from pipeline_tasks.corpus.search.provider import Busy, Refused, Spent
from pipeline_tasks.corpus.search.searxng import SearXNG
from tests.corpus.search.standins import (
    StandIn,
    StandInBrave,
    StandInCommonCrawl,
    StandInSearXNG,
    found,
    reply,
)

KEY = "BSA-a-secret-of-the-test"
CRAWL = "CC-MAIN-2026-43"


def capture(url: str, mime: str = "application/pdf", status: str = "200") -> dict:
    return {"url": url, "mime": mime, "mime-detected": mime, "status": status, "timestamp": "20261001000000"}


@pytest.fixture
def asker(store: LocalStore):
    """Makes an asker for a stand-in."""
    opened = []

    def make(name: str, standin: StandIn, attempts: int = 2) -> Asker:
        access = {"secret": KEY, "headers": {KEY_HEADER: KEY}} if name == "brave" else {}
        ledger = Ledger(store, name, per_s=1000)
        opened.append(Asker(name, standin.url, "X", ResponseStore(store), ledger, attempts=attempts, **access))
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__(None, None, None)


def test_searxng_is_asked_in_json_page_by_page(asker):
    with StandInSearXNG(n=12) as there:
        hits = list(SearXNG(asker("searxng", there), "en").search("flood Ohio .pdf"))
    assert [(hit.url, hit.title) for hit in hits] == [(r["url"], r["title"]) for r in found("flood Ohio .pdf", 12)]
    assert [path for path, _, _ in there.seen] == ["/search"] * 3, "the empty third page is the end"
    assert dict(there.seen[1][1]) == {
        "q": "flood Ohio .pdf filetype:pdf",
        "format": "json",
        "categories": "general",
        "language": "en",
        "pageno": "2",
    }


def test_a_further_page_is_asked_for_only_when_it_is_needed(asker):
    with StandInSearXNG(n=40) as there:
        assert len(list(islice(SearXNG(asker("searxng", there), "en").search("flood"), 10))) == 10
    assert len(there.seen) == 1


def test_a_searxng_without_json_is_the_callers_to_mend(asker):
    with StandInSearXNG(formats=("html",)) as there, pytest.raises(InputError, match="list json under search: formats"):
        list(SearXNG(asker("searxng", there), "en").search("flood"))
    assert len(there.seen) == 1


def test_no_results_from_silent_engines_are_no_answer(asker):
    with StandInSearXNG(n=0) as there:
        there.silent = [["an engine", "Suspended: CAPTCHA"]]
        with pytest.raises(Busy, match="engines_unresponsive.*CAPTCHA"):
            list(SearXNG(asker("searxng", there), "en").search("flood"))
        assert len(there.seen) == 2
        there.silent = []
        assert list(SearXNG(asker("searxng", there), "en").search("flood")) == []


def test_an_empty_page_after_results_is_the_end_also_where_an_engine_is_always_silent(asker):
    with StandInSearXNG(n=8) as there:
        there.silent = [["an engine", "Suspended: CAPTCHA"]]
        assert len(list(SearXNG(asker("searxng", there), "en").search("flood"))) == 8
    assert len(there.seen) == 2


def test_an_empty_page_of_an_engine_that_fell_silent_after_the_first_is_asked_for_again(asker, tmp_path):
    always, now = ["an engine", "timeout"], ["another", "Suspended: too many requests"]
    first = reply(200, {"results": found("flood", 10), "unresponsive_engines": [always]})
    empty = reply(200, {"results": [], "unresponsive_engines": [always, now]})
    with StandInSearXNG(first, empty, empty) as there:
        with pytest.raises(Busy, match=r"engines_unresponsive', .\[\['another', 'Suspended: .*'\]\].\)"):
            list(SearXNG(asker("searxng", there), "en").search("flood"))
        assert len(list((tmp_path / "store" / "responses").rglob("*.json"))) == 1
        there.silent = [always]
        assert len(list(SearXNG(asker("searxng", there), "en").search("flood"))) == 12
    assert [dict(params)["pageno"] for _, params, _ in there.seen] == ["1", "2", "2", "2", "3"]


def test_brave_is_asked_as_its_documentation_has_it(asker):
    with StandInBrave(key=KEY, n=45) as there:
        hits = list(Brave(asker("brave", there), "en", "US").search("flood Ohio .pdf"))
    assert [hit.url for hit in hits] == [r["url"] for r in found("flood Ohio .pdf", 45)]
    assert there.billed == 3
    path, params, headers = there.seen[2]
    assert path == "/res/v1/web/search"
    assert dict(params) == {
        "q": "flood Ohio .pdf filetype:pdf",
        "country": "US",
        "search_lang": "en",
        "count": "20",
        "result_filter": "web",
        "spellcheck": "false",
        "text_decorations": "false",
        "offset": "2",
    }
    assert headers["x-subscription-token"] == KEY and headers["accept"] == "application/json"


def test_brave_ends_at_its_tenth_page_and_may_know_nothing(asker):
    with StandInBrave(key=KEY, n=500) as there:
        assert len(list(Brave(asker("brave", there), "en", "US").search("flood"))) == 200
        there.n = 0
        assert list(Brave(asker("brave", there), "en", "US").search("nothing")) == []
    assert there.billed == 11


@pytest.mark.parametrize(
    ("code", "status", "error", "said"),
    [
        ("SUBSCRIPTION_TOKEN_INVALID", 422, InputError, "set BRAVE_API_KEY"),
        ("SUBSCRIPTION_NOT_FOUND", 404, InputError, "set BRAVE_API_KEY"),
        ("VALIDATION", 422, Refused, "VALIDATION Key .* refused"),
        ("QUOTA_LIMITED", 429, Spent, "quota is spent"),
        ("PAYMENT_REQUIRED", 402, Spent, "quota is spent"),
        ("INTERNAL", 500, Busy, "http_500"),
    ],
)
def test_what_an_error_of_brave_means(asker, tmp_path, code, status, error, said):
    failure = StandInBrave.error(status, code, f"Key {KEY} refused")
    with StandInBrave(failure, failure, key=KEY) as there, pytest.raises(error, match=said) as caught:
        list(Brave(asker("brave", there), "en", "US").search("flood"))
    assert len(there.seen) == (2 if error is Busy else 1)
    assert KEY not in f"{caught.value!r} {caught.value}"


@pytest.mark.parametrize("headers", [{"Retry_After": "1"}, {"X_RateLimit_Reset": "1, 1419704"}])
def test_brave_is_left_alone_as_long_as_it_asks(asker, headers):
    busy = StandInBrave.error(429, "RATE_LIMITED", "Request rate limit exceeded for plan.", **headers)
    with StandInBrave(busy, key=KEY, n=1) as there:
        began = time.monotonic()
        assert len(list(Brave(asker("brave", there), "en", "US").search("flood"))) == 1
    assert len(there.seen) == 2 and time.monotonic() - began > 0.9


def test_a_wait_of_hours_is_not_sat_out(asker):
    busy = StandInBrave.error(429, "RATE_LIMITED", "", Retry_After="7200")
    with StandInBrave(busy, key=KEY) as there, pytest.raises(TransientError, match="asks to wait 7200 s"):
        brave = Brave(asker("brave", there), "en", "US")
        with pytest.raises(TransientError, match="asks to wait 7200 s"):
            list(brave.search("flood"))
        list(brave.search("storm"))
    assert len(there.seen) == 1, "nor is anything else asked meanwhile"


def test_common_crawl_gives_the_pdfs_of_a_pattern(asker):
    captures = [
        capture("https://www.fema.gov/a.pdf"),
        capture("https://www.fema.gov/a.pdf"),
        capture("https://www.fema.gov/page.pdf", mime="text/html"),
        capture("https://www.fema.gov/b", status="301"),
        capture("https://www.fema.gov/c", mime="text/html"),
        capture("https://www.fema.gov/d", mime="text/html"),
        capture("https://www.fema.gov/download?id=7"),
        capture("https://example.org/e.pdf"),
    ]
    with StandInCommonCrawl(crawl=CRAWL, captures=captures) as there:
        provider = CommonCrawl(asker("common_crawl", there), CRAWL)
        urls = [hit.url for hit in provider.search("*.fema.gov")]
        assert list(provider.search("*.nowhere.gov")) == []
    assert urls == ["https://www.fema.gov/a.pdf", "https://www.fema.gov/download?id=7"]
    assert {path for path, _, _ in there.seen} == {f"/{CRAWL}-index"}
    assert there.seen[0][1] == [("url", "*.fema.gov"), ("output", "json"), ("showNumPages", "true")]
    assert there.seen[1][1] == [
        ("url", "*.fema.gov"),
        ("output", "json"),
        ("fl", "url"),
        ("filter", "=mime-detected:application/pdf"),
        ("filter", "=status:200"),
        ("page", "0"),
    ]
    assert len(there.seen) == 1 + 3 + 1


def test_a_crawl_that_is_not_named_or_not_there(asker):
    with StandInCommonCrawl(crawl=CRAWL, captures=[]) as there:
        with pytest.raises(InputError, match="name one of"):
            CommonCrawl(asker("common_crawl", there), "")
        with pytest.raises(InputError, match="no such crawl"):
            list(CommonCrawl(asker("common_crawl", there), "CC-MAIN-1999-01").search("*.fema.gov"))
        there.script.append((200, {"Content-Type": "text/x-ndjson"}, b""))
        with pytest.raises(InputError, match="no such crawl"):
            list(CommonCrawl(asker("common_crawl", there), CRAWL).search("*.fema.gov"))


def test_a_line_that_is_no_capture_is_a_bad_answer(asker):
    broken = 200, {}, b'{"url": "https://www.fema.gov/a.pdf"}\n{"error": "storage"}\n'
    pages = reply(200, {"pages": 1, "pageSize": 5, "blocks": 1})
    with StandInCommonCrawl(pages, broken, crawl=CRAWL, captures=[]) as there:
        with pytest.raises(Refused, match="bad_answer"):
            list(CommonCrawl(asker("common_crawl", there), CRAWL).search("*.fema.gov"))


@pytest.mark.parametrize(
    "body",
    [
        b"<html>{not json",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'{"results": 7}',
        b'{"results": {"url": "x"}}',
        b"[" * 200_000,
        b'{"results": 1' + b"0" * 5000 + b"}",
        b" " * (LARGEST_REPLY + 1),
    ],
    ids=["html", "bytes", "list", "null", "number", "object", "nested", "huge-number", "too-large"],
)
def test_an_answer_that_is_none_is_refused_and_not_kept(asker, tmp_path: Path, body):
    with StandInSearXNG((200, {}, body)) as there:
        with pytest.raises(Refused, match="bad_answer"):
            list(SearXNG(asker("searxng", there), "en").search("flood"))
        assert len(there.seen) == 1
        assert not list((tmp_path / "store" / "responses").rglob("*.json"))
        assert len(list(SearXNG(asker("searxng", there), "en").search("flood"))) == 12


def test_a_redirect_is_not_followed_with_the_key(asker):
    with StandInSearXNG() as elsewhere:
        moved = 302, {"Location": f"{elsewhere.url}/search?format=json&q=x"}, b""
        with StandInBrave(moved, key=KEY) as there, pytest.raises(InputError, match="redirects"):
            list(Brave(asker("brave", there), "en", "US").search("flood"))
    assert elsewhere.seen == []


def test_what_was_asked_before_is_not_asked_again(asker, store):
    with StandInBrave(key=KEY, n=25) as there:
        first = list(Brave(asker("brave", there), "en", "US").search("flood"))
        again = asker("brave", there)
        assert list(Brave(again, "en", "US").search("flood")) == first
        assert there.billed == 2 and again.counts == {"search_answers_reused": 2}
        list(Brave(again, "de", "US").search("flood"))
    assert there.billed == 4


def test_nobody_listening_is_busy(asker):
    with StandInSearXNG() as there:
        pass
    with pytest.raises(Busy, match="unreachable"):
        list(SearXNG(asker("searxng", there), "en").search("flood"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "ftp://x",
        "http://x:port",
        "http://[::1",
        "http://user:secret@x",
        "http://x?key=secret",
        "http://x#secret",
    ],
)
def test_an_address_that_is_none_or_carries_a_secret_is_refused_without_showing_it(store, url):
    with pytest.raises(InputError, match="FOUNDRY_X_URL") as caught:
        Asker("x", url, "FOUNDRY_X_URL", ResponseStore(store), Ledger(store, "x"))
    assert "secret" not in str(caught.value)


def test_clean_leaves_one_short_line():
    assert clean("a\x00b\x1b[31m\u202ec\ud800\n\n d" + "e" * 10**6, 12) == "a b [31m c d"
