"""The nodes of a cluster that do one step together: each calls its body, and the first one gives what it makes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """One of ``count`` nodes. Alone, unless an engine says otherwise.

    Attributes:
        rank: its place; the first one, 0, gives what the step makes.
        count: how many there are.
        address: of this node.
        host: address of the first one.
        port: there, where the others find it.
        listener: file descriptor of the first one's socket at that port, which whoever uses it closes.
    """

    rank: int = 0
    count: int = 1
    address: str = "127.0.0.1"
    host: str = "127.0.0.1"
    port: int = 0
    listener: int | None = None

    @property
    def leads(self) -> bool:
        """Whether this is the one that gives what the step makes."""
        return self.rank == 0


class PartDone(Exception):
    """Raised in a node that does not lead, once its part is done: nothing is left of the step but what it makes."""


_ALONE = Member()
_member: ContextVar[Member] = ContextVar("member", default=_ALONE)


def member() -> Member:
    """Which node this is."""
    return _member.get()


@contextmanager
def acting_as(one: Member) -> Iterator[None]:
    """The block is called by that node."""
    token = _member.set(one)
    try:
        yield
    finally:
        _member.reset(token)


def listen(address: str) -> tuple[int, int]:
    """Open a port of this machine, at that address alone; the descriptor of its socket, and the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.create_server((address, 0), family=family)
    port: int = server.getsockname()[1]
    return server.detach(), port
