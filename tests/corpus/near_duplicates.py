"""Texts with planted near-duplicates, and what plain Python says of them: no hashing, no bands, all pairs."""

from __future__ import annotations

import random
import unicodedata
from itertools import combinations

WORDS = [f"word{i}" for i in range(5000)]


def a_text(chance: random.Random, n: int = 300) -> list[str]:
    return chance.choices(WORDS, k=n)


def edited(chance: random.Random, words: list[str], n_edits: int) -> list[str]:
    """The same words with ``n_edits`` of them replaced, far apart; each costs three shingles on either side."""
    copy = list(words)
    step = len(copy) // max(1, n_edits)
    for at in range(0, step * n_edits, step):
        copy[at + step // 2] = f"edit{chance.random()}"
    return copy


def planted(seed: int = 1, n: int = 40, edits: tuple[int, ...] = (0, 5, 33)) -> list[str]:
    """``n`` unrelated texts, then as many copies of them; the default edits make Jaccards of 1, ~0.9 and ~0.5."""
    chance = random.Random(seed)
    originals = [a_text(chance) for _ in range(n)]
    copies = [edited(chance, words, edits[i % len(edits)]) for i, words in enumerate(originals)]
    return [" ".join(words) for words in [*originals, *copies]]


def words_of(text: str) -> list[str]:
    """Words by the definition in ``texts/letters.py``, letter by letter."""
    found, word = [], ""
    for char in [*text, " "]:
        letter = char == "_" or unicodedata.category(char)[0] in "LMN"
        kana = "\u3041" <= char <= "\u30ff" or "\u31f0" <= char <= "\u31ff"
        han = unicodedata.name(char, "").startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH"))
        alone = letter and (kana or han)
        if word and (alone or not letter):
            found.append(word)
            word = ""
        if alone:
            found.append(char)
        elif letter:
            word += next((f for f in (char.casefold(), char.lower()) if len(f) == 1), char)
    return found


def shingles_of(text: str, n: int = 3) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {tuple(words[i : i + n]) for i in range(max(1, len(words) - n + 1))}


def exact_jaccard(a: str, b: str, n: int = 3) -> float:
    first, second = shingles_of(a, n), shingles_of(b, n)
    return len(first & second) / len(first | second)


def all_pairs(texts: list[str], threshold: float) -> dict[int, tuple[int, float]]:
    """Duplicate -> (the earlier text that stayed and is most like it, their Jaccard)."""
    sets = [shingles_of(text) for text in texts]
    like: dict[int, list[tuple[float, int]]] = {}
    for i, j in combinations(range(len(texts)), 2):
        jaccard = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
        if jaccard >= threshold:
            like.setdefault(j, []).append((jaccard, -i))
    found: dict[int, tuple[int, float]] = {}
    for j in sorted(like):
        if stayed := [pair for pair in like[j] if -pair[1] not in found]:
            jaccard, i = max(stayed)
            found[j] = (-i, jaccard)
    return found
