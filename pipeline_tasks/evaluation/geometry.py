"""How an embedder lays a corpus out: whether a query is near its passage, and whether passages fill the space.

Lower alignment and higher uniformity go with better rankings. Of an embedder that is trained further both change at
once, so an alignment is compared across models as a share of the distance to the nearest passage.

Source: Wang and Isola 2020, "Understanding contrastive representation learning through alignment and uniformity on the
hypersphere"; BMEmbed, appendix E.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.errors import InputError

_BLOCK = 1024
_QUERIES, _PASSAGES = 1_000, 2_000
"""Of a sample: enough for three digits, and seconds less than a search."""
_LEAST = 1e-6
"""A squared distance below this is rounding: a query that is its nearest passage has an alignment of 1 with it."""


class Geometry(NamedTuple):
    """Of one embedder on one corpus.

    Attributes:
        alignment: mean squared distance of a query and its passage.
        normalised_alignment: mean of that distance over the one to the query's nearest passage; 1 where that is it.
        uniformity: -log of the mean of exp(-2 squared distance) over pairs of passages; the more, the more even.
    """

    alignment: float
    normalised_alignment: float
    uniformity: float


def geometry(queries: np.ndarray, positives: np.ndarray, passages: np.ndarray) -> Geometry:
    """Alignment and uniformity of L2-normalised vectors.

    Args:
        queries: of queries.
        positives: place of each query's passage.
        passages: of the corpus, or of a sample of it.

    Shapes: queries [q, d]; positives [q]; passages [n, d].

    Raises:
        InputError: there is no query, or there are fewer than two passages.
    """
    if not len(queries) or len(passages) < 2:
        raise InputError(f"{len(queries)} queries and {len(passages)} passages have no geometry: give some, and two")
    apart = _squared(np.einsum("qd,qd->q", queries, passages[positives]))
    nearest = np.concatenate([_squared(found).min(axis=1) for found in _cosines(queries, passages)])
    shares = np.maximum(apart, _LEAST) / np.maximum(nearest, _LEAST)
    return Geometry(float(apart.mean()), float(shares.mean()), _uniformity(passages))


def of_sample(queries: np.ndarray, positives: np.ndarray, passages: np.ndarray) -> Geometry:
    """As :func:`geometry`, over at most a thousand queries, their passages and two thousand passages besides.

    Of as many queries and passages always the same ones, whichever the embedder.

    Raises:
        InputError: as there.
    """
    random = np.random.default_rng(0)
    asked = random.permutation(len(queries))[:_QUERIES]
    others = random.permutation(len(passages))[:_PASSAGES]
    there = np.unique(np.concatenate([positives[asked], others]))
    return geometry(queries[asked], np.searchsorted(there, positives[asked]), passages[there])


def _uniformity(passages: np.ndarray) -> float:
    n = len(passages)
    total = sum(np.exp(-2 * _squared(found)).sum() for found in _cosines(passages, passages))
    of_themselves = np.exp(-2 * _squared(np.einsum("nd,nd->n", passages, passages))).sum()
    return float(-np.log((total - of_themselves) / (n * (n - 1))))


def _cosines(queries: np.ndarray, passages: np.ndarray) -> Iterator[np.ndarray]:
    """A block of queries at a time, [b, n]."""
    return (queries[at : at + _BLOCK] @ passages.T for at in range(0, len(queries), _BLOCK))


def _squared(cosines: np.ndarray) -> np.ndarray:
    """Squared distances of unit vectors with these cosines."""
    return np.maximum(2 - 2 * cosines.astype(np.float64), 0)
