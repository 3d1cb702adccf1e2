"""Clusters of a training's passages: with them a sampler chooses among subjects within a source.

A row's cluster is that of its positive. Vectors are lexical, by latent semantic analysis of the tokens that training
has made already: no model reads a text for them, which costs least, and a GPU changes nothing. A passage is, for each
token, log(1 + how often) x log(passages / passages with it), projected on the leading right singular subspace of a
sample and scaled to length 1. Subspace iteration finds the subspace; k-means by cosine is blind to its rotations.

Source:
    Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; Halko et al. 2011, "Finding Structure with
    Randomness", Algorithm 4.4, for the subspace; Dhillon and Modha 2001, "Concept Decompositions", for the k-means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.settings import settings
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.data.tokens import Tokens

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WIDTH = 64
# More rounds gave no purer clusters of four mixed collections.
_ROUNDS = 4
_SAMPLE = 1 << 15
# Faiss would draw as many itself, from vectors that would all have to be in memory.
_PER_CENTRE = 256
_AT_ONCE = 1 << 12


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
            for vectors in _vectors(passages, which, self.words):
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
    words = _words(data.passages, _some(np.unique(data.positive_of), _SAMPLE, random), vocabulary, random)
    of_row, sources = np.empty(len(data), np.int64), list[str]()
    centres = [np.zeros((0, words.shape[1]), np.float32)]
    for number, source in enumerate(data.sources):
        rows = np.flatnonzero(data.source_of == number)
        passages, passage_of = np.unique(data.positive_of[rows], return_inverse=True)
        sample = np.concatenate(list(_vectors(data.passages, _some(passages, _PER_CENTRE * k, random), words)))
        found = Clusters(words, _centres(sample, min(k, len(passages)), seed))
        full, cluster_of = np.unique(found.nearest(data.passages, passages), return_inverse=True)
        of_row[rows] = len(sources) + cluster_of[passage_of]
        centres.append(found.centres[full])
        sources += [source] * len(full)
    return Clusters(words, np.concatenate(centres)), sources, of_row


def _some(numbers: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    return numbers if len(numbers) <= n else np.sort(random.choice(numbers, n, replace=False))


def _words(passages: Tokens, which: np.ndarray, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    from scipy.sparse import diags_array, vstack

    counts = vstack(list(_counts(passages, which, vocabulary)), format="csr")
    having = np.bincount(counts.indices, minlength=vocabulary)
    weights = np.log(len(which) / np.maximum(having, 1)) * (having > 0)
    weighted = counts @ diags_array(weights)
    lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    weighted = diags_array(1 / np.maximum(lengths, 1e-9)) @ weighted
    basis = random.standard_normal((vocabulary, _WIDTH))
    for _ in range(_ROUNDS):
        basis, _ = np.linalg.qr(weighted.T @ (weighted @ basis))
    return (weights[:, None] * basis).astype(np.float32)


def _counts(passages: Tokens, which: np.ndarray, vocabulary: int) -> Iterator[csr_array]:
    """log(1 + how often each token is in each passage), a block at a time."""
    from scipy.sparse import csr_array

    for start in range(0, len(which), _AT_ONCE):
        ids = [passages[number] for number in which[start : start + _AT_ONCE].tolist()]
        ends = np.cumsum([0, *map(len, ids)])
        block = csr_array((np.ones(ends[-1]), np.concatenate(ids), ends), shape=(len(ids), vocabulary))
        block.sum_duplicates()
        block.data = np.log1p(block.data)
        yield block


def _vectors(passages: Tokens, which: np.ndarray, words: np.ndarray) -> Iterator[np.ndarray]:
    for block in _counts(passages, which, len(words)):
        found = block @ words
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        yield (found / np.maximum(lengths, 1e-9)).astype(np.float32)


def _centres(vectors: np.ndarray, k: int, seed: int) -> np.ndarray:
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    # Of three beginnings the best, as one may leave two subjects together.
    chosen = {"niter": 20, "nredo": 3, "seed": seed, "spherical": True, "min_points_per_centroid": 1}
    means: Any = faiss.Kmeans(vectors.shape[1], k, **chosen)
    means.train(vectors)
    return means.centroids
