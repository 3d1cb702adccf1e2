"""Texts without end that repeat no sentence, made of the words and the word order of given ones."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator

_SENTENCES, _PARAGRAPHS = (3, 9), (1, 4)
_LONGEST = 40
_TRIES = 1000


def new_texts(texts: list[str], seed: int) -> Iterator[str]:
    """Texts in which no sentence comes twice or stands in ``texts``; the same for the same seed.

    Chunkers remember what they have counted: pieces, or words. Texts that come again, or words that are all known soon,
    would measure that memory. So each word follows the one before it somewhere in ``texts``, and new words come as
    often as they do in text of that length.

    Raises:
        ValueError: ``texts`` are too few to make another sentence of.

    Source:
        Heaps 1978: n words hold n^b times a constant distinct ones. Then b is the share of the distinct ones that stand
        there once, by the estimate of Good 1953 that the next word is new with the probability of these over n.
    """
    language = _Language(texts, random.Random(seed))
    while True:
        paragraphs = language.chance.randint(*_PARAGRAPHS)
        lengths = [language.chance.randint(*_SENTENCES) for _ in range(paragraphs)]
        yield "\n\n".join(" ".join(language.sentence() for _ in range(length)) for length in lengths)


class _Language:
    """Which word follows which, what has been said, and how many words that took."""

    def __init__(self, texts: list[str], chance: random.Random) -> None:
        self.chance, self.follows, self.first = chance, defaultdict(list), []
        self.said, sentence = set(), []
        for word in (word for text in texts for word in text.split()):
            (self.follows[sentence[-1]] if sentence else self.first).append(word)
            sentence.append(word)
            if _ends(word):
                self.said.add(" ".join(sentence))
                sentence = []
        counts = Counter(word for text in texts for word in text.split())
        self.words, self.n, self.n_distinct = list(counts), counts.total(), len(counts)
        self.b = sum(n == 1 for n in counts.values()) / max(len(counts), 1)

    def sentence(self) -> str:
        """One that has not been said, nor stands in the texts."""
        for _ in range(_TRIES if self.first else 0):
            sentence = " ".join(self._drawn())
            if sentence not in self.said:
                self.said.add(sentence)
                return sentence
        raise ValueError(f"{self.n:,} words are too few to make another sentence of: give more texts")

    def _drawn(self) -> Iterator[str]:
        word = self.chance.choice(self.first)
        for _ in range(_LONGEST):
            self.n += 1
            yield self._coined(word) if self.chance.random() < self.b * self.n_distinct / self.n else word
            if _ends(word) or not self.follows[word]:
                return
            word = self.chance.choice(self.follows[word])

    def _coined(self, word: str) -> str:
        """A new word: how another one begins and how this one ends, with what punctuation it has."""
        self.n_distinct += 1
        other = self.chance.choice(self.words)
        return other[: (len(other) + 1) // 2] + word[len(word) // 2 :]


def _ends(word: str) -> bool:
    return word[-1] in ".!?"
