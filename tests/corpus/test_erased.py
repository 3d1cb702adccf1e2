"""What was erased does not come back, though it is still on the list and the site still has it."""

from __future__ import annotations

from tests.core.erasure.library import take_down
from tests.corpus.test_crawl_refresh import Site
from tests.corpus.web import serving
from tests.stores import reasons, rejects, rows


def test_the_next_crawl_brings_an_erased_document_back(store):
    with serving({}) as web:
        site = Site(web, store, 3)
        site.put("copy", version="")
        web.pages["/copy.pdf"] = web.pages["/1.pdf"]
        site.list(range(3))
        site.crawl()
        gone = next(row for row in rows(store, "downloads") if row["url"].endswith("/1.pdf"))
        take_down(store, gone["doc_id"])
        site.list([0, 1, 2, "copy"])
        site.crawl("monday")
        assert {row["url"] for row in rows(store, "downloads")} == site.urls(0, 2)
        assert reasons(store, "downloads") == {"erased": 2}, "the same bytes at another address are the same document"
        assert all(gone["content_sha256"] not in row["detail"] for row in rejects(store, "downloads").values())
        site.put(1, version="with nothing of it")
        site.crawl("tuesday")
        assert {row["url"] for row in rows(store, "downloads")} == site.urls(0, 1, 2)


def test_an_erased_address_is_not_even_listed_nor_asked_for(store):
    with serving({}) as web:
        site = Site(web, store, 3)
        site.list(range(3))
        site.crawl()
        (url,) = site.urls(1)
        url_id = next(row["url_id"] for row in rows(store, "urls") if row["url"] == url)
        take_down(store, url, url_id)
        site.list(range(3))
        assert {row["url"] for row in rows(store, "urls")} == site.urls(0, 2)
        assert reasons(store, "urls") == {"erased": 1} and rejects(store, "urls")[url_id]["detail"] == ""
        site.list([0, 1, 1, 2])
        assert url not in str(rejects(store, "urls"))
        site.put(1, version="a new text")
        site.crawl("monday")
        assert web.hits["/1.pdf"] == 0
        assert {row["url"] for row in rows(store, "downloads")} == site.urls(0, 2)
        assert take_down(store, url, url_id).findings.clean
