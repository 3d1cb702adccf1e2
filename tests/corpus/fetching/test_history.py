"""What servers send with bytes that are known: validators and redirects may change while no row does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.fetching.hosts import GIVE_UP_AFTER
from pipeline_tasks.corpus.list_urls import list_urls
from tests.corpus.fetching.parts import PDF
from tests.corpus.web import Page, Web, answer, serving
from tests.stores import go, rows

N = 3


def tagged(etag: str, body: bytes = PDF) -> Page:
    """A document that is sent to who does not know it by this ETag."""

    def page(handler, before: int) -> None:
        knows = handler.headers.get("If-None-Match") == etag
        answer(304 if knows else 200, b"" if knows else body, ETag=etag)(handler, before)

    return page


class Site:
    """A list of three documents, and one address that comes later."""

    def __init__(self, web: Web, store: Store, folder: Path) -> None:
        self.web, self.store, self._list = web, store, folder / "list.txt"
        self.deploy("a")
        self.list(*range(N))

    def list(self, *names: object) -> None:
        self._list.write_text("".join(f"{self.web.url}/{name}.pdf\n" for name in names))
        go(self.store, list_urls, source=str(self._list))

    def deploy(self, release: str, *names: object) -> None:
        for name in names or range(N):
            self.web.pages[f"/{name}.pdf"] = tagged(f'"{name}{release}"')

    def crawl(self, refresh: str) -> tuple[Outcome, int]:
        """What came of it, and the bytes of documents that it received."""
        outcome = go(self.store, crawl, refresh=refresh, delay_s=0, attempts=1)
        return outcome, int(outcome.counters["bytes"])


@pytest.fixture
def site(store: Store, tmp_path: Path):
    with serving({}) as web:
        site = Site(web, store, tmp_path)
        assert site.crawl("1")[1] == N * len(PDF)
        yield site


def test_etags_that_changed_cost_one_download_and_no_version(site: Site, store: Store):
    before = load_manifest(store, Ref.parse("downloads"))
    site.deploy("b")
    assert site.crawl("2")[1] == N * len(PDF)
    for week in ("3", "4"):
        outcome, size_bytes = site.crawl(week)
        assert outcome.reused and outcome.counters["unchanged"] == N and size_bytes == 0
        drop(store, find_garbage(store, keep=1, grace_s=0))
    assert load_manifest(store, Ref.parse("downloads")) == before


def test_what_was_left_of_other_bytes_says_nothing_once_the_first_are_back(site: Site):
    for week, etag, body in (("2", "b", PDF), ("3", "c", PDF + b"%"), ("4", "d", PDF)):
        site.web.pages["/0.pdf"] = tagged(f'"0{etag}"', body)
        assert site.crawl(week)[1] == len(body)
    assert site.crawl("5")[1] == 0


def test_a_redirect_that_leads_elsewhere_costs_one_download(site: Site):
    for name in range(N):
        site.web.pages |= {f"/{name}.pdf": answer(301, Location=f"/new/{name}.pdf")}
        site.web.pages |= {f"/new/{name}.pdf": tagged(f'"{name}a"')}
    assert site.crawl("2")[1] == N * len(PDF), "no other address is sent what this one gave"
    assert site.crawl("3")[1] == 0


def test_what_changed_later_and_what_came_later_is_kept_beside_it(site: Site, store: Store):
    site.deploy("b")
    site.crawl("2")
    site.deploy("c", 1)
    site.deploy("a", "late")
    site.list(*range(N), "late")
    outcome, size_bytes = site.crawl("3")
    assert outcome.counters["fetched"] == 1 and size_bytes == 2 * len(PDF)
    site.list(*range(1, N), "late")
    assert site.crawl("4")[1] == 0 and len(rows(store, "downloads")) == N


def test_a_document_that_changed_is_asked_for_by_what_its_new_bytes_came_with(site: Site, store: Store):
    site.deploy("b")
    site.crawl("2")
    site.web.pages["/0.pdf"] = tagged('"0c"', PDF + b"revised")
    assert site.crawl("3")[0].counters["changed"] == 1
    assert site.crawl("4")[1] == 0
    (row,) = (row for row in rows(store, "downloads") if row["url_id"] == short_id(f"{site.web.url}/0.pdf"))
    assert row["etag"] == '"0c"'


@pytest.mark.parametrize("headers", [{"Retry-After": "3600"}, {}])
def test_a_host_that_was_given_up_keeps_its_documents_until_it_is_asked_again(site: Site, store: Store, headers):
    names = range(GIVE_UP_AFTER + 5)
    site.deploy("a", *names)
    site.list(*names)
    site.crawl("2")
    before, pages = load_manifest(store, Ref.parse("downloads")), dict(site.web.pages)
    site.web.pages |= {f"/{name}.pdf": answer(503, **headers) for name in names}
    outcome, _ = site.crawl("3")
    assert outcome.reused and outcome.counters["kept_after_error"] == len(names)
    assert outcome.counters["requests"] < len(names)
    site.web.pages = pages
    assert site.crawl("4")[0].counters["unchanged"] == len(names)
    assert load_manifest(store, Ref.parse("downloads")) == before


def test_validators_that_got_lost_cost_one_download(site: Site, store: Store):
    site.deploy("b")
    site.crawl("2")
    drop(store, find_garbage(store, memo=True, grace_s=0))
    assert site.crawl("3")[1] == N * len(PDF)
    assert site.crawl("4")[1] == 0
