"""Clusters of a training's passages: with them a sampler chooses among subjects within a source.

A row's cluster is that of its positive. Vectors are lexical, by :mod:`latent semantic analysis
<pipeline_tasks.texts.latent>` of the tokens that training has made already: no model reads a text for them, which costs
least, and a GPU changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline_tasks.core.progress import meter
from pipeline_tasks.texts import latent
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.data.tokens import Tokens

_SAMPLE = 1 << 15
# Faiss would draw as many itself, from vectors that would all have to be in memory.
_PER_CENTRE = 256


@dataclass(frozen=True)
class Clusters:
    """Where the clusters are.

    Attributes:
        words: token id -> its direction, [v, d] float32; 0 where no passage of the sample has the token, or each has.
        centres: of length 1, [m, d] float32.
    """

    words: np.ndarray
    centres: np.ndarray

    def nearest(self, passages: Tokens, which: np.ndarray) -> np.ndarray:
        """The cluster of each passage of these numbers, [len(which)]; the first one for a passage without any word."""
        found = [np.zeros(0, np.int64)]
        with meter("looking up clusters", len(which), "passages") as done:
            for vectors in latent.vectors(passages, which, self.words):
                found.append((vectors @ self.centres.T).argmax(axis=1))
                done.advance(len(vectors))
        return np.concatenate(found)

    def shares(self, targets: Rows) -> np.ndarray:
        """Share of the queries whose positive is nearest to each cluster, [m]; one with several counts in parts."""
        each = 1 / np.bincount(targets.query_of)[targets.query_of]
        at = self.nearest(targets.passages, targets.positive_of)
        return np.bincount(at, each, len(self.centres)) / each.sum()


def clusters(data: Rows, k: int, vocabulary: int, seed: int) -> tuple[Clusters, list[str], np.ndarray]:
    """Divide each source of the rows into ``k`` clusters of its positives, or as many as it has positives.

    Args:
        data: rows.
        k: clusters of each source; those that stay empty are left out.
        vocabulary: how many token ids there are.
        seed: of samples and of first centres.

    Returns:
        The clusters; the source of each, [m]; the cluster of each row, [n]. The clusters of a source are neighbours.
    """
    random = np.random.default_rng([seed, k])
    known = _some(np.unique(data.positive_of), _SAMPLE, random)
    words = latent.directions(data.passages, known, vocabulary, random)
    of_row, sources = np.empty(len(data), np.int64), list[str]()
    centres = [np.zeros((0, words.shape[1]), np.float32)]
    for number, source in enumerate(data.sources):
        rows = np.flatnonzero(data.source_of == number)
        passages, passage_of = np.unique(data.positive_of[rows], return_inverse=True)
        some = _some(passages, _PER_CENTRE * k, random)
        sample = np.concatenate(list(latent.vectors(data.passages, some, words)))
        found = Clusters(words, latent.centres(sample, min(k, len(passages)), seed))
        full, cluster_of = np.unique(found.nearest(data.passages, passages), return_inverse=True)
        of_row[rows] = len(sources) + cluster_of[passage_of]
        centres.append(found.centres[full])
        sources += [source] * len(full)
    return Clusters(words, np.concatenate(centres)), sources, of_row


def _some(numbers: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    return numbers if len(numbers) <= n else np.sort(random.choice(numbers, n, replace=False))
