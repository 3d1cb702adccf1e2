"""How far two who judged the same things agree, beyond what they would by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.statistics import DRAWS


@dataclass(frozen=True)
class Agreement:
    """Two judges on the same things, each with yes or no.

    Attributes:
        table: how many things: rows are the one's yes and no, columns the other's.
        share: of the things on which both say the same.
        kappa: Cohen's; None where it is not defined, as both say the same of everything.
        low: end of its 95% interval; None where kappa is.
        high: other end.
    """

    table: tuple[tuple[int, int], tuple[int, int]]
    share: float
    kappa: float | None
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        """Things that both judged."""
        return sum(map(sum, self.table))


def kappa(tables: np.ndarray) -> np.ndarray:
    """Cohen's kappa: ``(p_o - p_e) / (1 - p_e)``, the agreement beyond chance as a share of what could be beyond it.

    ``p_o`` is the share of the diagonal, ``p_e`` what it would be of judges with the same counts who do not look: the
    sum over classes of the product of both judges' shares. 1 is full agreement, 0 that of chance, and less is worse
    than chance. NaN where ``p_e`` is 1: both put everything into one class.

    Shapes: tables [..., c, c], counts or shares, no table of zeros; returns [...].

    Source: Cohen 1960, "A coefficient of agreement for nominal scales".
    """
    shares = tables / tables.sum(axis=(-2, -1), keepdims=True)
    observed = np.trace(shares, axis1=-2, axis2=-1)
    by_chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    beyond = 1 - by_chance
    defined = ~np.isclose(beyond, 0)
    return np.divide(observed - by_chance, beyond, out=np.full_like(observed, np.nan), where=defined)


def agreement(one: np.ndarray, other: np.ndarray, seed: int = 0) -> Agreement:
    """How far two judges agree, with the percentile bootstrap interval of kappa over the things that they judged.

    To draw n things anew, with replacement, is to draw the counts of the table from a multinomial distribution. Draws
    in which kappa is not defined are left out.

    Shapes: one, other [n], bool, of the same things in the same order.

    Raises:
        InputError: there is nothing that both judged.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """
    if not len(one):
        raise InputError("nothing was judged by both: there is no agreement of nothing")
    counts = np.array([[(one & other).sum(), (one & ~other).sum()], [(~one & other).sum(), (~one & ~other).sum()]])
    share, value = float(np.trace(counts) / counts.sum()), float(kappa(counts))
    table = ((int(counts[0, 0]), int(counts[0, 1])), (int(counts[1, 0]), int(counts[1, 1])))
    if np.isnan(value):
        return Agreement(table, share, None, None, None)
    drawn = np.random.default_rng(seed).multinomial(len(one), counts.ravel() / counts.sum(), DRAWS)
    low, high = np.nanquantile(kappa(drawn.reshape(-1, 2, 2)), [0.025, 0.975])
    return Agreement(table, share, value, float(low), float(high))
