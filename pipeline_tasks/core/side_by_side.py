"""Torch or numpy on a processor with a piece of work a thread, rather than every operation on all threads.

Nothing waits for another thread after each layer, and what a piece gives does not depend on how many threads there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def torch_threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """``number`` threads, in each of which an operation of torch takes one; afterwards torch has as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


@contextmanager
def numpy_threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """``number`` threads, in each of which a product of numpy takes one; afterwards it takes as many as before."""
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(number) as pool:
        yield pool


@cache
def _libraries() -> ThreadpoolController:
    """What is loaded is looked up once, since that takes longer than a small product."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_order(pool: Executor, ahead: int, work: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """``map(work, items)`` by ``pool``; ``items`` is read no further than ``ahead`` of what is taken."""
    pending: deque[Future[Made]] = deque()
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
