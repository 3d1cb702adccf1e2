"""What takes too long, and what a body may cost."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from errno import ENOSPC
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pipeline_tasks.corpus.fetching import client
from pipeline_tasks.corpus.fetching.body import Sink
from tests.corpus.fetching.parts import PDF, fetch_all
from tests.corpus.web import answer, serving


def drip(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Never silent for long, and never done."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(PDF)
    for _ in range(200):
        handler.wfile.write(b".")
        time.sleep(0.05)


def drip_headers(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(200):
        handler.wfile.write(f"X-{number}: .\r\n".encode())
        time.sleep(0.05)


def hang(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(PDF)
    time.sleep(1.5)


@pytest.mark.parametrize(
    ("page", "limits", "reason", "tries"),
    [
        (drip, {"time_limit_s": 0.5}, "too_slow", 1),
        (drip_headers, {"time_limit_s": 0.5}, "too_slow", 1),
        (hang, {"timeout_s": 0.2}, "timeout", 2),
        (hang, {"timeout_s": 0.8, "time_limit_s": 1.4}, "too_slow", 2),
    ],
)
def test_a_slow_answer_ends(tmp_path: Path, page, limits, reason, tries):
    with serving({"/a.pdf": page}) as web:
        url = f"{web.url}/a.pdf"
        end = fetch_all(tmp_path, [url], **limits)[url]
    assert (end.reason, end.attempts) == (reason, tries)
    assert list((tmp_path / "bodies").iterdir()) == []


@pytest.mark.parametrize("said", ["21\x1f", "\x1c21"])
def test_a_number_among_control_characters_ends_its_own_address_alone(tmp_path: Path, said: str):
    busy = answer(503, **{"Retry-After": said})
    with serving({"/a.pdf": busy}) as web, serving({"/b.pdf": answer(200, PDF)}) as other:
        odd, whole = f"{web.url}/a.pdf", f"{other.url}/b.pdf"
        ends = fetch_all(tmp_path, [odd, whole])
    assert (ends[odd].reason, ends[whole].end) == ("http_503", "fetched")


def test_an_answer_that_nobody_foresaw_ends_its_own_address_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serving({"/a.pdf": answer(503), "/b.pdf": answer(200, PDF)}) as web:
        odd, whole = f"{web.url}/a.pdf", f"{web.url}/b.pdf"
        monkeypatch.setattr(client, "retry_after_s", float)  # of no header at all: a ValueError
        ends = fetch_all(tmp_path, [odd, whole])
    assert (ends[odd].reason, ends[odd].attempts, ends[odd].passing) == ("bad_response", 1, True)
    assert ends[odd].detail.startswith("ValueError: could not convert") and ends[whole].end == "fetched"


@pytest.mark.parametrize("failure", [OSError(ENOSPC, "full"), MemoryError()])
def test_what_this_machine_lacks_is_no_answer_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure):
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(Sink, "write", fail)
    with serving({"/a.pdf": answer(200, PDF)}) as web, pytest.raises(type(failure)):
        fetch_all(tmp_path, [f"{web.url}/a.pdf"])


def test_waiting_for_a_turn_costs_no_time(tmp_path: Path):
    with serving({"/a.pdf": answer(200, PDF)}) as web:
        urls = [f"{web.url}/a.pdf?{i}" for i in range(6)]
        ends = fetch_all(tmp_path, urls, delay_s=0.2, time_limit_s=0.6)
    assert {end.end for end in ends.values()} == {"fetched"}


def test_a_bomb_costs_no_memory(tmp_path: Path):
    bomb = gzip.compress(PDF + bytes(200 << 20), 9)
    with serving({"/a.pdf": answer(200, bomb[:9000], **{"Content-Encoding": "gzip"})}) as web:
        tracemalloc.start()
        url = f"{web.url}/a.pdf"
        end = fetch_all(tmp_path, [url])[url]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert end.reason == "too_large" and peak < 8 << 20


def test_one_document_under_two_addresses_is_kept_once(tmp_path: Path):
    with serving({"/a.pdf": answer(200, PDF), "/b.pdf": answer(200, PDF)}) as web:
        ends = fetch_all(tmp_path, [f"{web.url}/a.pdf", f"{web.url}/b.pdf"])
    assert len({end.sha256 for end in ends.values()}) == 1
    assert len(list((tmp_path / "bodies").iterdir())) == 1
