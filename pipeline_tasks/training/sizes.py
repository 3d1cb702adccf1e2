"""The family's sizes: difficulty schedule and hyperparameters of each. Light to import, so that DAGs can read it.

Source: DMRetriever, Table 1, appendix D and Table 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.core.errors import InputError


@dataclass(frozen=True)
class Size:
    """One member of the family.

    Attributes:
        alphas: difficulty of each fine-tuning iteration, in order.
        decoder: a decoder-only backbone, which needs bidirectional adaptation first.
    """

    alphas: tuple[float, ...]
    decoder: bool
    pretrain_learning_rate: float
    pretrain_batch_size: int
    finetune_learning_rate: float
    finetune_batch_size: int


_PROGRESSIVE = (0.65, 0.75, 0.85)

SIZES = {
    "33m": Size(_PROGRESSIVE, False, 4e-4, 2400, 4e-5, 1024),
    "109m": Size(_PROGRESSIVE, False, 3e-4, 732, 1e-5, 512),
    "335m": Size(_PROGRESSIVE, False, 1e-4, 384, 9e-6, 512),
    "596m": Size((0.95,), True, 9e-5, 384, 6e-5, 512),
    "4b": Size((0.95,), True, 4e-5, 192, 2e-5, 128),
    "7.6b": Size((0.95,), True, 2e-5, 140, 1e-5, 64),
}


def get_size(name: str) -> Size:
    """The size called ``name``.

    Raises:
        InputError: the family has no such size.
    """
    if name not in SIZES:
        raise InputError(f"size={name!r} is not in the family; sizes are {', '.join(SIZES)}")
    return SIZES[name]
