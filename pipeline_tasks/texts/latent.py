"""Vectors of texts by the words that they share, and clusters of them: latent semantic analysis, and k-means by cosine.

No model reads a text for them. A text is, for each word, log(1 + how often) x log(texts / texts with it), projected on
the leading right singular subspace of a sample and scaled to length 1. Subspace iteration finds the subspace; cosines
are blind to its rotations.

Source:
    Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; Halko et al. 2011, "Finding Structure with
    Randomness", Algorithm 4.4, for the subspace; Dhillon and Modha 2001, "Concept Decompositions", for the k-means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pipeline_tasks.core.arrays import offsets
from pipeline_tasks.core.settings import settings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WIDTH = 64
# More rounds gave no purer clusters of four mixed collections.
_ROUNDS = 4
_AT_ONCE = 1 << 12
_WORD = re.compile(r"\w+")


class Numbered(Protocol):
    """Texts by their number, each as the ids of its words, int."""

    def __getitem__(self, number: int, /) -> np.ndarray: ...


def directions(texts: Numbered, which: np.ndarray, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    """Word id -> its direction, 0 where none of these texts has the word, or each.

    Shapes: which [n]; returns [v, d] float32, d no more than v.
    """
    from scipy.sparse import diags_array, vstack

    counts = vstack(list(_counts(texts, which, vocabulary)), format="csr")
    having = np.bincount(counts.indices, minlength=vocabulary)
    weights = np.log(len(which) / np.maximum(having, 1)) * (having > 0)
    weighted = counts @ diags_array(weights)
    lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    weighted = diags_array(1 / np.maximum(lengths, 1e-9)) @ weighted
    basis = random.standard_normal((vocabulary, _WIDTH))
    for _ in range(_ROUNDS):
        basis, _ = np.linalg.qr(weighted.T @ (weighted @ basis))
    return (weights[:, None] * basis).astype(np.float32)


def _counts(texts: Numbered, which: np.ndarray, vocabulary: int) -> Iterator[csr_array]:
    """log(1 + how often each word is in each text), a block at a time."""
    from scipy.sparse import csr_array

    for start in range(0, len(which), _AT_ONCE):
        ids = [texts[number] for number in which[start : start + _AT_ONCE].tolist()]
        ends = offsets([*map(len, ids)])
        block = csr_array((np.ones(ends[-1]), np.concatenate(ids), ends), shape=(len(ids), vocabulary))
        block.sum_duplicates()
        block.data = np.log1p(block.data)
        yield block


def vectors(texts: Numbered, which: np.ndarray, words: np.ndarray) -> Iterator[np.ndarray]:
    """Of these texts, a block at a time: of length 1, or 0 where no word of a text has a direction.

    Shapes: which [n]; words [v, d]; yields [up to 4,096, d] float32.
    """
    for block in _counts(texts, which, len(words)):
        found = block @ words
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        yield (found / np.maximum(lengths, 1e-9)).astype(np.float32)


def centres(of: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Of ``k`` clusters by cosine, of length 1.

    Shapes: of [n, d] float32, n at least k; returns [k, d].
    """
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    # Of three beginnings the best, as one may leave two subjects together.
    chosen = {"niter": 20, "nredo": 3, "seed": seed, "spherical": True, "min_points_per_centroid": 1}
    means: Any = faiss.Kmeans(of.shape[1], k, **chosen)
    means.train(of)
    return means.centroids


def by_words(texts: Sequence[str], seed: int) -> np.ndarray:
    """Vectors of texts by their words in small letters; texts with the same words have the same one.

    Shapes: returns [len(texts), d] float32.
    """
    ids: dict[str, int] = {}
    read = [
        np.array([ids.setdefault(word, len(ids)) for word in _WORD.findall(text.casefold())], np.int64)
        for text in texts
    ]
    which = np.arange(len(texts))
    return np.concatenate(list(vectors(read, which, directions(read, which, len(ids), np.random.default_rng(seed)))))


def plane(of: np.ndarray) -> np.ndarray:
    """The two leading principal components of vectors, by singular value decomposition around their mean.

    Along each, the text furthest from the middle is on the positive side: so a picture is not mirrored by chance. What
    varies in one direction alone has 0 in the second.

    Shapes: of [n, d], n at least 1; returns [n, 2].
    """
    around = of - of.mean(axis=0)
    left, sizes, _ = np.linalg.svd(around.astype(np.float64), full_matrices=False)
    found = np.pad((left * sizes)[:, :2], ((0, 0), (0, max(0, 2 - len(sizes)))))
    return found * np.sign(found[np.abs(found).argmax(axis=0), [0, 1]])
