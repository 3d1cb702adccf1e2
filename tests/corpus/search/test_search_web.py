"""The step over stand-in servers: rows, rejects, and that no secret is left anywhere."""

from __future__ import annotations

import logging

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.search_web import search_web
from tests.core.erasure.library import take_down
from tests.corpus.search.planned import KEY, QUERIES, QUICK, asked, planned
from tests.corpus.search.standins import StandInBrave, StandInCommonCrawl, StandInSearXNG, found, reply
from tests.stores import go, reasons, rejects, rows


def test_every_result_is_a_row_that_knows_its_search(store: LocalStore, brave):
    planned(store, QUERIES[:2], QUERIES[2:3])
    outcome = go(store, search_web, provider="brave", **QUICK)
    got = rows(store, "search_results")
    assert [(r["search_id"], r["rank"], r["url"], r["title"]) for r in got] == [
        (short_id(query), rank, hit["url"], hit["title"])
        for query in QUERIES[:3]
        for rank, hit in enumerate(found(query, 3), 1)
    ]
    assert {r["provider"] for r in got} == {"brave"} and len({r["result_id"] for r in got}) == 9
    assert all(r["url_id"] == short_id(r["url"]) for r in got)
    assert all(store.read(f"responses/{r['response_id'][:2]}/{r['response_id']}.json") for r in got)
    assert (outcome.counters["search_requests"], outcome.counters["cost_usd"]) == (3, pytest.approx(0.15))
    assert go(store, search_web, provider="brave", **QUICK).reused and brave.billed == 3


def test_as_many_results_as_asked_for_and_pages_for_no_more(store: LocalStore, brave):
    brave.n = 50
    planned(store, QUERIES[:1])
    go(store, search_web, provider="brave", max_results=20, **QUICK)
    assert len(rows(store, "search_results")) == 20 and brave.billed == 1
    go(store, search_web, provider="brave", max_results=30, **QUICK)
    assert len(rows(store, "search_results")) == 30 and brave.billed == 2


def test_no_secret_is_in_anything_that_is_kept_or_said(store: LocalStore, brave, caplog):
    caplog.set_level(logging.DEBUG)
    echoed = {"web": {"results": [{"url": f"https://x.org/?k={KEY}", "title": f"your key is {KEY}"}]}}
    brave.script += [
        StandInBrave.error(422, "VALIDATION", f"token {KEY} and this query do not fit"),
        reply(200, {"type": "search", "query": {}} | echoed),
    ]
    planned(store, QUERIES)
    go(store, search_web, provider="brave", concurrency=1, **QUICK)
    brave.script.append(StandInBrave.error(422, "SUBSCRIPTION_TOKEN_INVALID", KEY))
    with pytest.raises(InputError, match="set BRAVE_API_KEY") as caught:
        go(store, search_web, provider="brave", refresh="2", **QUICK)
    assert KEY not in str(caught.value) and KEY not in caplog.text
    files = [path for path in store.root.rglob("*") if path.is_file()]
    assert len(files) > 12
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert "***" in rows(store, "search_results")[0]["title"]


@pytest.mark.parametrize("key", ["", "two\nlines", "schlüssel"])
def test_a_key_that_is_none_is_the_callers_mistake(store: LocalStore, brave, use, key):
    use("BRAVE", brave.url, BRAVE_API_KEY=key)
    planned(store, QUERIES[:1])
    with pytest.raises(InputError, match="set BRAVE_API_KEY"):
        go(store, search_web, provider="brave", **QUICK)
    assert brave.seen == []


def test_an_engine_that_is_always_silent_ends_no_search_that_found_something(store: LocalStore, use):
    planned(store, QUERIES)
    with StandInSearXNG(n=8) as there:
        there.silent = [["an engine", "Suspended: CAPTCHA"]]
        use("SEARXNG", there.url)
        go(store, search_web, provider="searxng", **QUICK)
    assert len(rows(store, "search_results")) == 8 * len(QUERIES) and not rejects(store, "search_results")


def test_engines_that_fall_silent_after_a_page_end_no_run_and_what_they_had_is_asked_for_again(store: LocalStore, use):
    class Suspended(StandInSearXNG):
        def answer(self, path, params, headers):
            first = dict(params)["pageno"] == "1"
            return super().answer(path, params, headers) if first else reply(200, empty)

    empty = {"results": [], "unresponsive_engines": [["an engine", "Suspended: too many requests"]]}
    planned(store, QUERIES)
    with Suspended() as there:
        use("SEARXNG", there.url)
        go(store, search_web, provider="searxng", **QUICK)
    assert len(rows(store, "search_results")) == 10 * len(QUERIES)
    assert reasons(store, "search_results") == {"engines_unresponsive": len(QUERIES)}
    with StandInSearXNG() as there:
        use("SEARXNG", there.url)
        go(store, search_web, provider="searxng", again="1", **QUICK)
    assert len(rows(store, "search_results")) == 12 * len(QUERIES) and not rejects(store, "search_results")
    assert len(there.seen) == 2 * len(QUERIES), "the first pages are stored"


def test_hostile_results_are_rejects_and_harm_nothing(store: LocalStore, use):
    hostile = [
        {"url": "javascript:alert(1)", "title": "click"},
        {"url": "file:///etc/passwd", "title": "read"},
        {"url": "http://user:pw@example.org/a.pdf", "title": "login"},
        {"url": "https://example.org/\x1b[31m.pdf", "title": "red"},
        {"url": "https://example.org/" + "a" * 5000, "title": "long"},
        {"url": 7, "title": None},
        "no object",
        {"url": "https://example.org/\ud800.pdf", "title": "half a character"},
        {"url": "https://example.org/big.pdf", "title": "A" * 10_000_000},
        {"url": "https://example.org/odd.pdf", "title": "a\x00b\x1b[31m\u202ec\ud800\nd"},
        {"url": "HTTPS://Example.org:443/odd.pdf#page=2", "title": "again"},
        {"title": "no address"},
    ]
    with StandInSearXNG(reply(200, {"results": hostile})) as there:
        use("SEARXNG", there.url)
        planned(store, QUERIES[:1])
        outcome = go(store, search_web, max_results=len(hostile), **QUICK)
    got = {row["url"]: row for row in rows(store, "search_results")}
    backslash = "https://example.org//ud800.pdf"
    assert set(got) == {"https://example.org/big.pdf", "https://example.org/odd.pdf", backslash}
    assert got["https://example.org/big.pdf"]["title"] == "A" * 300
    assert got["https://example.org/odd.pdf"]["title"] == "a b [31m c d"
    assert got["https://example.org/odd.pdf"]["rank"] == 10
    assert reasons(store, "search_results") == {"bad_url": 8}
    assert outcome.counters["results_repeated"] == 1
    assert all(path.stat().st_size < 100_000 for path in store.root.rglob("*") if path.is_file())


def test_a_search_without_an_answer_is_a_reject_and_can_be_asked_again(store: LocalStore, use):
    with StandInSearXNG((200, {}, b"<html>"), n=2) as there:
        use("SEARXNG", there.url)
        planned(store, QUERIES[:3])
        go(store, search_web, concurrency=1, **QUICK)
        assert rejects(store, "search_results")[short_id(QUERIES[0])]["reason"] == "bad_answer"
        assert QUERIES[0] in rejects(store, "search_results")[short_id(QUERIES[0])]["detail"]
        assert len(rows(store, "search_results")) == 4
        before = len(there.seen)
        go(store, search_web, again="1", **QUICK)
        assert len(rows(store, "search_results")) == 6
        assert set(asked(there)[before:]) == {QUERIES[0]}
        go(store, search_web, refresh="2026-11-21", **QUICK)
        assert len(there.seen) == before + 2 + 6, "two pages of the one search, then of all three"


def test_results_before_a_broken_page_are_kept(store: LocalStore, use):
    first = reply(200, {"results": found("x", 2)})
    with StandInSearXNG(first, (200, {}, b"{")) as there:
        use("SEARXNG", there.url)
        planned(store, QUERIES[:1])
        go(store, search_web, **QUICK)
    assert len(rows(store, "search_results")) == 2 and reasons(store, "search_results") == {"bad_answer": 1}


def test_one_busy_page_is_a_reject_but_a_provider_that_is_away_ends_the_run(store: LocalStore, use):
    down = [(503, {}, b"Service Unavailable")] * 2
    with StandInSearXNG(*down, n=1) as there:
        use("SEARXNG", there.url)
        planned(store, QUERIES)
        go(store, search_web, concurrency=1, **QUICK)
        assert reasons(store, "search_results") == {"http_503": 1}
        planned(store, [f"other {query}" for query in QUERIES])
        there.script += down * 12
        away = "no answer to 5 searches in a row, to the last for http_503.*12 of 12 searches are left"
        with pytest.raises(TransientError, match=away):
            go(store, search_web, concurrency=1, **QUICK)


def test_common_crawl_is_asked_for_a_pattern(store: LocalStore, use):
    captures = [
        {"url": f"https://www.fema.gov/{i}", "mime-detected": "application/pdf", "status": "200"} for i in range(7)
    ]
    with StandInCommonCrawl(crawl="CC-MAIN-2026-43", captures=captures) as there:
        use("COMMON_CRAWL", there.url)
        planned(store, ["*.fema.gov"])
        go(store, search_web, provider="common_crawl", crawl="CC-MAIN-2026-43", max_results=5, **QUICK)
    got = rows(store, "search_results")
    assert [row["url"] for row in got] == [c["url"] for c in captures[:5]] and {row["title"] for row in got} == {""}
    assert len(there.seen) == 3


def test_without_an_address_the_provider_is_not_set_up(store: LocalStore, use):
    use("SEARXNG", "")
    planned(store, QUERIES[:1])
    with pytest.raises(InputError, match="FOUNDRY_SEARXNG_URL"):
        go(store, search_web, **QUICK)


@pytest.mark.parametrize("crawl", ["../admin?", "CC-MAIN-2026-43/../x", "a b", "@host"])
def test_the_name_of_a_crawl_leads_nowhere_else_on_its_server(crawl):
    with pytest.raises(InputError, match="crawl="):
        search_web.parse({"provider": "common_crawl", "crawl": crawl})


def test_what_was_erased_is_found_no_more(store: LocalStore, brave):
    planned(store, QUERIES[:1])
    go(store, search_web, provider="brave", **QUICK)
    url = rows(store, "search_results")[0]["url"]
    take_down(store, url, short_id(url))
    planned(store, QUERIES[:2])
    go(store, search_web, provider="brave", max_results=20, **QUICK)
    assert url not in {row["url"] for row in rows(store, "search_results")}
    assert reasons(store, "search_results") == {"erased": 1}
    assert url not in str(rejects(store, "search_results"))
