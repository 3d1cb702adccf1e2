"""How diverse short texts are, such as instructions: by what they mean, and by their words.

Both measures take time linear in the number of texts. The second depends on that number, as more texts share more: only
samples of one size can be compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

SAMPLE = 10_000
"""Texts that InF-IR 4.2 compares datasets by."""
GRAMS = (1, 2, 3)
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def average_similarity(vectors: np.ndarray) -> float:
    """APS, average pairwise sample similarity: the mean cosine over all pairs of different texts; the less, the better.

    The sum over all ordered pairs is the squared length of the sum of all vectors, so no pair is looked at.

    Shapes: vectors [n, d], L2-normalised, n at least 2.

    Source: InF-IR 4.2.
    """
    n = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    of_themselves = np.einsum("nd,nd->", vectors, vectors, dtype=np.float64)
    return float((total @ total - of_themselves) / (n * (n - 1)))


def inverse_gram_frequency(texts: Sequence[str], n: int) -> float:
    """The mean of 1 / (texts that hold the n-gram) over all n-grams of all texts; 1: no two texts share one.

    An n-gram is ``n`` words in a row, in small letters; a text has each of its n-grams once. So it is the number of
    distinct n-grams over the sum of how many each text has. NaN where no text has ``n`` words.

    Source: what it is to measure is that of "inter-sample N-gram frequency (INGF)" in InF-IR 4.2, more being more
    diverse. That paper has no formula, and the index that it cites (Mishra et al. 2020, DQI) also counts parts of
    speech and sentences. This definition is ours, and its figures are not those of the paper's Figure 4.
    """
    held: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        words = [word.lower() for word in _WORD.findall(text)]
        held.update(set(zip(*(words[start:] for start in range(n)), strict=False)))
    return len(held) / held.total() if held else float("nan")


def shown(value: float) -> str:
    """A measure as people read it; empty where it is none."""
    return "" if np.isnan(value) else f"{value:.3f}"
