"""Documents with planted near-duplicates, and the truth about all their pairs: word numbers are compared, no hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

VOCABULARY = 20_000
SHINGLE = 3


@dataclass(frozen=True)
class Planted:
    """Texts, and document -> (the earlier one that stayed and is most like it, exact Jaccard)."""

    texts: list[str]
    truth: dict[int, tuple[int, float]]
    near: np.ndarray


def plant(n: int, threshold: float, seed: int = 7) -> Planted:
    """``n`` documents of about 300 words, a third of them edited copies with Jaccards from 0.5 to 0.95, shuffled."""
    chance = np.random.default_rng(seed)
    weights = 1 / (np.arange(VOCABULARY) + 50)
    originals = n - n // 3
    lengths = np.clip(chance.normal(300, 60, originals), 100, 600).astype(int)
    drawn = chance.choice(VOCABULARY, int(lengths.sum()), p=weights / weights.sum())
    documents = np.split(drawn, np.cumsum(lengths)[:-1])
    documents += [_edited(chance, documents[i]) for i in chance.integers(0, originals, n // 3)]
    documents = [documents[i] for i in chance.permutation(n)]
    spelled = _spellings(chance)
    first, second, jaccard = _pairs(documents)
    texts = [_text([spelled[word] for word in words]) for words in documents]
    return Planted(texts, _greedy(first, second, jaccard, threshold), jaccard[jaccard >= 0.4])


def _edited(chance: np.random.Generator, words: np.ndarray) -> np.ndarray:
    """A copy with words replaced, put in or left out; an edit costs about three shingles on each side."""
    target = chance.uniform(0.5, 0.95)
    edits = max(1, round(len(words) * (1 - target) / (SHINGLE * (1 + target))))
    copy = words.copy()
    places = chance.choice(len(words), edits, replace=False)
    copy[places] = chance.integers(0, VOCABULARY, edits)
    copy = np.delete(copy, places[: edits // 10])
    return np.insert(copy, chance.integers(0, len(copy), edits // 10), chance.integers(0, VOCABULARY, edits // 10))


def _spellings(chance: np.random.Generator) -> list[str]:
    """A different word of two to fourteen letters for every number, some with an accent or a digit."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxzé1"))
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(chance.choice(letters, min(2 + chance.poisson(5), 14)))] = None
    return list(found)


def _text(words: list[str]) -> str:
    """Sentences of a dozen words."""
    sentences = [" ".join(words[i : i + 12]).capitalize() for i in range(0, len(words), 12)]
    return ". ".join(sentences) + "."


def _pairs(documents: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every pair of documents that share a shingle, earlier one first, and their exact Jaccard."""
    shingles = [np.unique((w[:-2] * VOCABULARY + w[1:-1]) * VOCABULARY + w[2:]) for w in documents]
    sizes = np.array([len(s) for s in shingles])
    values = np.concatenate(shingles)
    owners = np.repeat(np.arange(len(documents)), sizes)
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners[order]
    met, apart = [], 1
    while (same := values[apart:] == values[:-apart]).any():
        met.append(owners[:-apart][same] * len(documents) + owners[apart:][same])
        apart += 1
    pairs, shared = np.unique(np.concatenate(met), return_counts=True)
    first, second = np.divmod(pairs, len(documents))
    return first, second, shared / (sizes[first] + sizes[second] - shared)


def _greedy(
    first: np.ndarray, second: np.ndarray, jaccard: np.ndarray, threshold: float
) -> dict[int, tuple[int, float]]:
    like: dict[int, list[tuple[float, int]]] = {}
    alike = jaccard >= threshold
    for i, j, similarity in zip(first[alike].tolist(), second[alike].tolist(), jaccard[alike].tolist(), strict=True):
        like.setdefault(j, []).append((similarity, -i))
    found: dict[int, tuple[int, float]] = {}
    for j in sorted(like):
        if stayed := [pair for pair in like[j] if -pair[1] not in found]:
            similarity, i = max(stayed)
            found[j] = (-i, similarity)
    return found
