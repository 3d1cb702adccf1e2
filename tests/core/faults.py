"""Kills, and whatever else, before the n-th operation of a process: a call of the system, or a request to a bucket."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from hypothesis import strategies as st

OPERATIONS = ("link", "replace", "rename", "unlink", "rmdir", "mkdir", "utime", "fsync")
REQUEST = BaseClient._make_api_call
Fault = tuple[str, int]
KINDS = st.sampled_from(["kill", "kill", "cut", "cut", "collect", "step"])


def fault_within(operations: int) -> st.SearchStrategy[Fault]:
    """What happens, and before which operation; it does not where there are fewer."""
    return st.tuples(KINDS, st.sampled_from(range(1, operations + 1)))


class Killed(BaseException):
    """The process is gone; nothing that it would still do happens."""


class Faults:
    """Something that happens at the n-th operation; after a kill no operation does anything any more."""

    def __init__(self) -> None:
        self._left, self._dead, self._happens = 0, False, lambda: None
        self._mine = threading.get_ident()

    @contextmanager
    def at(self, n: int, happens: Callable[[], None]) -> Iterator[None]:
        """``happens`` before operation ``n`` of the block."""
        self._left, self._happens = n, happens
        try:
            yield
        finally:
            self._left, self._dead = 0, False

    def kill(self) -> None:
        """From now on, until the end of the block."""
        self._dead = True

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """``real`` as an operation."""

        def operation(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._mine and self._left:
                self._left -= 1
                if not self._left:
                    self._happens()
            if self._dead and (threading.get_ident() == self._mine or real is REQUEST):
                raise Killed
            return real(*args, **kwargs)

        return operation


@contextmanager
def breakable(faults: Faults, *, bucket: bool) -> Iterator[None]:
    """Every operation of this process goes through ``faults``: calls of the system, or requests to the server."""
    with ExitStack() as stack:
        if bucket:
            stack.enter_context(patch.object(BaseClient, "_make_api_call", faults.around(REQUEST)))
        else:
            for name in OPERATIONS:
                stack.enter_context(patch.object(os, name, faults.around(getattr(os, name))))
        yield
