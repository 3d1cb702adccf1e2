"""Real processes that start the same work at the same moment."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

from tests.forked import forked


def together(n: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Results of ``work(i, *args)`` in ``n`` processes that wait for one another before they begin.

    Raises:
        AssertionError: one of them failed; the message holds its traceback.
    """
    context = forked()
    barrier = context.Barrier(n)
    pipes = [context.Pipe(duplex=False) for _ in range(n)]
    environment = dict(os.environ)
    processes = [
        context.Process(target=_begin, args=(barrier, sender, work, i, args, environment))
        for i, (_, sender) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for _, sender in pipes:
        sender.close()
    answers = [receiver.recv() for receiver, _ in pipes]
    for process in processes:
        process.join()
    failed = [error for _, error in answers if error]
    assert not failed, failed[0]
    return [result for result, _ in answers]


def _begin(
    barrier: Any, sender: Any, work: Callable[..., Any], i: int, args: tuple[Any, ...], environment: dict[str, str]
) -> None:
    os.environ.update(environment)
    barrier.wait()
    try:
        sender.send((work(i, *args), ""))
    except BaseException:
        sender.send((None, traceback.format_exc()))
