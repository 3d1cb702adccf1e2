"""Steps in blocks, watched: killed in the middle, and asked how many rows they read at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import wraps

import pyarrow as pa


def deadly(real: Callable[..., Iterator[pa.Table]]) -> Callable[..., Iterator[pa.Table]]:
    """``real``, which kills its process where it is called for the third time."""
    done = []

    @wraps(real)
    def work(given: object, run: object) -> Iterator[pa.Table]:
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(given)
        yield from real(given, run)

    return work


def seen(real: Callable[..., pa.Table], sizes: list[int]) -> Callable[..., pa.Table]:
    """``real``, which adds the rows of each table that it gives to ``sizes``."""

    @wraps(real)
    def read(*args: object, **kwargs: object) -> pa.Table:
        table = real(*args, **kwargs)
        sizes.append(table.num_rows)
        return table

    return read
