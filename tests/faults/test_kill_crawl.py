"""SIGKILL in the middle of a crawl, twice: the third run goes on from there and asks for nothing a second time."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.datasets import URLS
from tests.core.toy_steps import check_whole
from tests.corpus.web import Page, answer, serving
from tests.stores import go, put, reasons, rows

N = 60
PER_HOST = 4
PATIENCE_S = 60.0
SETTINGS = {"delay_s": 0, "per_host": PER_HOST, "attempts": 1, "part_rows": 7}


class Gate:
    """Answers so many requests and holds up the rest; a crawler with every request held up has noted all it got."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = 0
        self.held = 0

    def let_pass(self, n: int) -> None:
        """Answer ``n`` requests from now on; those held up are given up, their crawler is dead."""
        with self._changed:
            self._open, self.held = n, 0
            self._changed.notify_all()

    def wait_for_all(self) -> None:
        """Until as many requests are held up as a crawler sends at once."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.held == PER_HOST, PATIENCE_S)

    def page(self, then: Page) -> Page:
        """``then``, for those who pass."""

        def page(handler: BaseHTTPRequestHandler, before: int) -> None:
            with self._changed:
                if self._open == 0:
                    self.held += 1
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self.held == 0, PATIENCE_S)
                    handler.close_connection = True
                    return
                self._open -= 1
            then(handler, before)

        return page


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator lets crawls ask the server of this test."""
    monkeypatch.setenv("FOUNDRY_ALLOW_HOSTS", "127.0.0.1")
    settings.cache_clear()


def crawl_here(root: Path) -> None:
    """What the child does."""
    go(LocalStore(root), crawl, **SETTINGS)


def start(root: Path) -> BaseProcess:
    process = get_context("spawn").Process(target=crawl_here, args=(root,))
    process.start()
    return process


def listed(root: Path, urls: list[str]) -> LocalStore:
    store = LocalStore(root)
    put(store, URLS, [{"url_id": short_id(url), "url": url, "source": "test"} for url in urls])
    return store


def test_two_kills_and_nothing_is_asked_for_twice(tmp_path: Path):
    gate = Gate()
    pages = {f"/{i}.pdf": answer(200, b"%PDF-1.7\n" + b"%d " % i * 1000) for i in range(N)}
    pages |= {f"/{i}.pdf": answer(404) for i in range(0, N, 10)}
    with serving({path: gate.page(page) for path, page in pages.items()}) as web:
        killed, calm = (listed(tmp_path / name, [web.url + path for path in pages]) for name in ("killed", "calm"))
        for n in (15, 25):
            gate.let_pass(n)
            process = start(killed.root)
            gate.wait_for_all()
            process.kill()
            process.join()
            assert list(killed.keys("versions/downloads")) == []
        gate.let_pass(N)
        outcome = go(killed, crawl, **SETTINGS)
        hits = web.hits.copy()
        gate.let_pass(N)
        go(calm, crawl, **SETTINGS)
    assert outcome.counters["resumed"] == 40 and outcome.counters["requests"] == N - 40
    assert hits.pop("/robots.txt") == 1
    assert Counter(hits.values()).keys() <= {1, 2, 3} and sum(hits.values()) == N + 2 * PER_HOST, "those on their way"
    assert outcome.counters["fetched"] == len(rows(killed, "downloads")) == N - N // 10
    assert reasons(killed, "downloads") == {"http_404": N // 10}
    assert check_whole(killed) == check_whole(calm)
    assert not list((killed.root / "scratch").iterdir())
