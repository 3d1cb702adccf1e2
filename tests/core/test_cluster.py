"""Joining a Ray cluster that is slow to answer. Ray is not needed: a stand-in fails as its client does."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pipeline_tasks.core.engines import cluster
from pipeline_tasks.core.errors import TransientError


class SlowRay:
    """Refuses so many times, as the client of Ray does whose head is busy, and then joins."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.joined, self.left = refusals, 0, 0

    def init(self, **_: object) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("ray client connection timeout")
        self.joined += 1

    def shutdown(self) -> None:
        self.left += 1


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(cluster, "_PAUSE_S", 0.01)


def join(monkeypatch, ray: SlowRay, address: str) -> SlowRay:
    monkeypatch.setattr(cluster, "_ray", lambda: ray)
    return cluster.connect(address, {})


def test_a_busy_head_is_asked_again(monkeypatch, port):
    found = join(monkeypatch, SlowRay(2), f"ray://127.0.0.1:{port}")
    assert (found.joined, found.left) == (1, 2)


def test_patience_ends_with_the_reason(monkeypatch, port):
    monkeypatch.setattr(cluster, "_JOINING_S", 0.05)
    with pytest.raises(TransientError, match=r"no Ray cluster answers at ray://.* \(ray client connection timeout\)"):
        join(monkeypatch, SlowRay(1_000), f"ray://127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["", "auto"])
def test_where_there_is_no_port_for_clients_one_refusal_is_the_answer(monkeypatch, address):
    ray = SlowRay(1)
    with pytest.raises(TransientError, match="no Ray cluster answers"):
        join(monkeypatch, ray, address)
    assert ray.left == 1 and not ray.joined


def test_nobody_listening_is_said_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    ray = SlowRay(0)
    with pytest.raises(TransientError, match="no Ray cluster answers"):
        join(monkeypatch, ray, f"ray://127.0.0.1:{closed}")
    assert not ray.joined
