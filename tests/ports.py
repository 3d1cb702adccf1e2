"""Ports for servers that are told theirs, on loopback."""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack

_FIRST, _EACH, _WORKERS = 20_000, 1_500, 8
"""Below what systems hand out themselves (32768 and up), a range for each worker of a test run."""


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on, and that no server of another test is given before ours has begun.

    A port that the system has just handed out is soon handed out again: to a stand-in of another worker, say, which is
    then taken for the server.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _WORKERS
    tried = random.SystemRandom().sample(range(_FIRST + worker * _EACH, _FIRST + (worker + 1) * _EACH), _EACH)
    found: list[int] = []
    with ExitStack() as stack:
        for port in tried:
            if len(found) == n:
                break
            one = stack.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    assert len(found) == n, f"no {n} ports are free between {min(tried)} and {max(tried)}"
    return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
