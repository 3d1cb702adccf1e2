"""The same run gives the same bits: threads, kernels and dropout are fixed for as long as training lasts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Deterministic kernels and a fixed number of CPU threads in the block; the caller's settings after it.

    Results are then equal bit for bit on one machine; another CPU or GPU model may round otherwise. Memory that a
    kernel is about to write is not filled first, as torch would in this mode: that finds kernels which read too early.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    previous_threads = torch.get_num_threads()
    previous_mode = torch.are_deterministic_algorithms_enabled()
    filling: Any = torch.utils.deterministic
    previous_fill = filling.fill_uninitialized_memory
    with torch.random.fork_rng():
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True)
        filling.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(previous_mode)
            filling.fill_uninitialized_memory = previous_fill
            torch.set_num_threads(previous_threads)


def seed_dropout(*key: int) -> None:
    """Make the next random draws a function of ``key`` (seed, step, group, piece) and of nothing before them.

    So no generator state has to be saved with a checkpoint, and a piece encoded twice sees one dropout mask.
    """
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    torch.manual_seed(int(state) & (2**63 - 1))
