from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.corpus.fetching import hosts
from pipeline_tasks.corpus.fetching.hosts import GIVE_UP_AFTER, Host, Manners
from tests.corpus.fetching.parts import PDF, fetch_all
from tests.corpus.web import answer, serving


class Watched:
    """A document that takes a moment; notes when it was asked for, and how many were on their way at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.times, self.most, self._now = seconds, [], 0, 0
        self._lock = threading.Lock()

    def __call__(self, handler: BaseHTTPRequestHandler, before: int) -> None:
        with self._lock:
            self.times.append(time.monotonic())
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
        answer(200, PDF)(handler, before)


@pytest.mark.parametrize("per_host", [1, 3])
def test_a_host_is_asked_for_so_many_at_once(tmp_path: Path, per_host):
    page = Watched(0.05)
    with serving({"/a.pdf": page}) as web:
        fetch_all(tmp_path, [f"{web.url}/a.pdf?{i}" for i in range(9)], per_host=per_host)
    assert page.most == per_host and len(page.times) == 9


@pytest.mark.parametrize(
    ("settings", "robots", "delay_s"),
    [
        ({"delay_s": 0.1}, b"", 0.1),
        ({}, b"User-agent: *\nCrawl-delay: 0.1", 0.1),
        ({}, b"User-agent: *\nRequest-rate: 5/1s", 0.2),
    ],
)
def test_the_longer_of_our_delay_and_the_sites_own_is_kept(tmp_path: Path, settings, robots, delay_s):
    page = Watched(0)
    with serving({"/a.pdf": page, "/robots.txt": answer(200, robots, "text/plain")}) as web:
        fetch_all(tmp_path, [f"{web.url}/a.pdf?{i}" for i in range(5)], **settings)
    assert page.times[-1] - page.times[0] >= 4 * delay_s - 0.05


def test_hosts_do_not_wait_for_one_another(tmp_path: Path):
    pages = [Watched(0.3), Watched(0.3)]
    with serving({"/a.pdf": pages[0]}) as one, serving({"/a.pdf": pages[1]}) as other:
        fetch_all(tmp_path, [f"{one.url}/a.pdf", f"{other.url}/a.pdf"], per_host=1)
    assert abs(pages[0].times[0] - pages[1].times[0]) < 0.3


def test_retry_after_stops_all_requests_to_the_host(tmp_path: Path):
    page = Watched(0)

    def throttled(handler: BaseHTTPRequestHandler, before: int) -> None:
        if before:
            page(handler, before)
        else:
            page.times.append(time.monotonic())
            answer(429, **{"Retry-After": "1"})(handler, before)

    with serving({"/a.pdf": throttled, "/b.pdf": page}) as web:
        ends = fetch_all(tmp_path, [f"{web.url}/a.pdf", f"{web.url}/b.pdf"], per_host=1)
    assert {end.end for end in ends.values()} == {"fetched"}
    assert page.times[1] - page.times[0] >= 0.95


@pytest.mark.parametrize("change", ["pause", "delay"])
def test_a_turn_that_waited_for_a_slot_still_keeps_its_distance(change):
    async def go() -> list[float]:
        slots, began = asyncio.Semaphore(1), []
        host = Host("h", Manners(0.3 if change == "delay" else 0.0, 4, 1, 1.0), slots)

        async def ask() -> None:
            async with host.turn("http://h/a.pdf"):
                began.append(time.monotonic())

        await slots.acquire()
        turns = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0.4)  # longer than the delay
        if change == "pause":
            host.pause(0.3)
        began.append(time.monotonic())
        slots.release()
        await asyncio.gather(*turns)
        return began

    released, first, second = asyncio.run(go())
    assert (first - released if change == "pause" else second - first) >= 0.29


def test_who_wants_to_be_left_alone_for_long_is(tmp_path: Path):
    with serving({"/a.pdf": answer(503, **{"Retry-After": "3600"})}) as web:
        url = f"{web.url}/a.pdf"
        end = fetch_all(tmp_path, [url])[url]
    assert (end.reason, end.detail, end.attempts) == ("http_503", "asks to be left alone for 3600 s", 1) and end.passing


def test_who_wants_to_be_left_alone_is_asked_for_no_other_address(tmp_path: Path):
    with serving({"/a.pdf": answer(429, **{"Retry-After": "3600"})}) as web, serving({"/b.pdf": Watched(0)}) as other:
        urls, whole = [f"{web.url}/a.pdf?{i}" for i in range(40)], f"{other.url}/b.pdf"
        ends = fetch_all(tmp_path, [*urls, whole], per_host=1)
    assert ends.pop(whole).end == "fetched" and [path for path, _ in web.asked] == ["/robots.txt", "/a.pdf?0"]
    assert Counter(end.reason for end in ends.values()) == {"http_429": 1, "left_alone": 39}
    assert all(end.passing for end in ends.values())
    assert ends[urls[9]].detail == f"{web.host} asks to be left alone for 3600 s"


def silent(handler: BaseHTTPRequestHandler, _: int) -> None:
    time.sleep(1.2)


def silent_midway(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(PDF)
    time.sleep(1.2)


@pytest.mark.parametrize(
    ("page", "tries", "n_asked"),
    [
        (answer(429, **{"Retry-After": "0"}), 4, 2),
        (answer(503), 7, 3),
        (silent, 7, 3),
        (silent_midway, 7, 3),
    ],
)
def test_a_host_that_is_away_for_many_tries_or_addresses_in_a_row_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page, tries, n_asked
):
    monkeypatch.setattr(hosts, "GIVE_UP_AFTER", 4)
    with serving({"/a.pdf": page}) as web:
        urls = [f"{web.url}/a.pdf?{i}" for i in range(9)]
        ends = fetch_all(tmp_path, urls, per_host=1, timeout_s=0.8)
    assert web.hits.total() == 1 + tries and all(end.passing for end in ends.values())
    assert [end.reason for end in ends.values()].count("host_down") == len(urls) - n_asked


@pytest.mark.parametrize("per_host", [1, 2])
def test_a_few_broken_addresses_in_a_row_give_no_host_up(tmp_path: Path, per_host):
    names = [f"/{i}.pdf" for i in range(65)]
    broken = names[20:25]
    with serving({name: answer(504) if name in broken else answer(200, PDF) for name in names}) as web:
        ends = fetch_all(tmp_path, [web.url + name for name in names], attempts=3, per_host=per_host)
    refused = {url: end.reason for url, end in ends.items() if end.end != "fetched"}
    assert refused == {web.url + name: "http_504" for name in broken}


@pytest.mark.parametrize("pages", [[answer(500)], [answer(503), answer(404)], [answer(503), answer(200, PDF)]])
def test_a_page_that_fails_by_itself_gives_no_host_up(tmp_path: Path, pages):
    n = 3 * GIVE_UP_AFTER
    with serving({f"/{i}.pdf": pages[i % len(pages)] for i in range(n)}) as web:
        fetch_all(tmp_path, [f"{web.url}/{i}.pdf" for i in range(n)], attempts=1, per_host=1)
    assert web.hits.total() == 1 + n


def test_a_host_that_is_never_there_is_given_up(tmp_path: Path):
    with serving({}) as web:
        urls = [f"{web.url}/{i}.pdf" for i in range(3 * GIVE_UP_AFTER)]
    assert {end.reason for end in fetch_all(tmp_path / "at once", urls).values()} == {"unreachable"}
    rules = tmp_path / "later" / "robots" / f"{short_id(web.url)}.json"
    rules.parent.mkdir(parents=True)
    rules.write_text('{"text": ""}')
    ends = fetch_all(rules.parents[1], urls, attempts=1, per_host=1).values()
    assert all(end.passing for end in ends)
    assert Counter(end.reason for end in ends) == {"unreachable": GIVE_UP_AFTER, "host_down": 2 * GIVE_UP_AFTER}
