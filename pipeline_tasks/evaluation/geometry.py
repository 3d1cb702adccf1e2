"""How an embedder lays a corpus out: whether a query is near its passage, and whether passages fill the space.

Lower alignment and higher uniformity go with better rankings. Of an embedder that is trained further both change at
once, so an alignment is compared across models as a share of the distance to the nearest passage.

Source: Wang and Isola 2020, "Understanding contrastive representation learning through alignment and uniformity on the
hypersphere"; BMEmbed, appendix E.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.errors import InputError

_DRAWN = 2_000
"""Passages that uniformity is of, at most: two million pairs are enough for three digits, and take a second."""
_LEAST = 1e-6
"""A squared distance below this is rounding: the nearest passage is the query word for word, which has no share."""


class Geometry(NamedTuple):
    """Of one embedder on one corpus.

    Attributes:
        alignment: mean squared distance of a query and its passage.
        normalised_alignment: mean of that distance over the one to the query's nearest passage; 1 where that is it, and
            of a query that is a passage word for word.
        uniformity: -log of the mean of exp(-2 squared distance) over pairs of passages; the more, the more even.
    """

    alignment: float
    normalised_alignment: float
    uniformity: float


def geometry(queries: np.ndarray, positives: np.ndarray, passages: np.ndarray, nearest: np.ndarray) -> Geometry:
    """Alignment and uniformity of L2-normalised vectors.

    Uniformity is that of at most two thousand passages, always the same ones of as many.

    Args:
        queries: of queries.
        positives: place of each query's passage.
        passages: of the corpus.
        nearest: cosine of each query and the passage of the whole corpus that is nearest to it, itself left out. A
            sample's would be farther away, the more so the larger the corpus.

    Shapes: queries [q, d]; positives [q]; passages [n, d]; nearest [q].

    Raises:
        InputError: there is no query, or there are fewer than two passages.
    """
    if not len(queries) or len(passages) < 2:
        raise InputError(f"{len(queries)} queries and {len(passages)} passages have no geometry: give some, and two")
    apart = _squared(np.einsum("qd,qd->q", queries, passages[positives]))
    least = _squared(nearest)
    shares = np.where(least < _LEAST, 1, apart / np.maximum(least, _LEAST))
    drawn = passages[np.random.default_rng(0).permutation(len(passages))[:_DRAWN]]
    return Geometry(float(apart.mean()), float(shares.mean()), _uniformity(drawn))


def _uniformity(passages: np.ndarray) -> float:
    pairs = np.triu_indices(len(passages), 1)
    return float(-np.log(np.exp(-2 * _squared(passages @ passages.T)[pairs]).mean()))


def _squared(cosines: np.ndarray) -> np.ndarray:
    """Squared distances of unit vectors with these cosines."""
    return np.maximum(2 - 2 * cosines.astype(np.float64), 0)
