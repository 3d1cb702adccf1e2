"""Which texts are copies of known ones: looked up as hashes of runs of words, a block of texts at a time.

Known texts belong to owners, each a bit of a mask. A text is a copy of one kind, the surest: the same text (``exact``),
the same words (``normalised``), or runs of 13 words (``13gram``; a text with fewer words is one run). If wanted, a
known text with fewer words is also found inside a longer one, by runs of its own length. An exact copy has the same
words, and the same words have the same runs: so the runs of all texts are looked up, and nothing else but of those that
were found. A text without words is nobody's copy.

Units: about 35 bytes of memory for each distinct run of words of the known texts, twice that while they are read.

Source: Brown et al. 2020, "Language Models are Few-Shot Learners", appendix C, for the 13 words
and the 8 of short texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.texts.letters import plain
from pipeline_tasks.texts.minhash import NO_WORDS, Sketches, sketch_texts

GRAM_WORDS = 13
SHORT_WORDS = 8
"""A text of fewer words is a turn of phrase, which others may have, too."""
KINDS = ("exact", "normalised", f"{GRAM_WORDS}gram")
MOST_OWNERS = 64
_EXACT, _NORMALISED, _GRAM = range(len(KINDS))
_ALL_WORDS = 1 << 30
_ROUNDING = 1e-4
"""What a sum of shares may lack of the share that it is."""
_MARKS_PER_KEY = 8
"""An unknown hash finds a mark by chance, and is searched for in vain, one time in so many."""


class Added(NamedTuple):
    """Distinct hashes of one owner's texts.

    Shapes: hashes [n] uint64; shares [n] float32, how much of its text each is.
    """

    owner: int
    hashes: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True)
class Hashes:
    """A set of 64-bit hashes, whose each of them is, and how much of a text of theirs.

    Shapes: keys [n] uint64, ascending; owners [n] uint64, masks; shares [n] float32, of the shortest text that has it;
    marks [a power of two] bool, set at the low bits of every key.
    """

    keys: np.ndarray
    owners: np.ndarray
    shares: np.ndarray
    marks: np.ndarray

    @classmethod
    def of(cls, added: list[Added]) -> Hashes:
        """All hashes of all owners."""
        none = Added(0, np.zeros(0, np.uint64), np.zeros(0, np.float32))
        keys = np.concatenate([one.hashes for one in (none, *added)])
        shares = np.concatenate([one.shares for one in (none, *added)])
        masks = np.concatenate([np.full(len(one.hashes), 1 << one.owner, np.uint64) for one in (none, *added)])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.ones(len(keys), bool)
        begins[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(begins)
        if len(first):
            masks, shares = np.bitwise_or.reduceat(masks[order], first), np.maximum.reduceat(shares[order], first)
        marks = np.zeros(1 << (_MARKS_PER_KEY * len(first)).bit_length(), bool)
        marks[keys[first] & np.uint64(len(marks) - 1)] = True
        return cls(keys[first], masks, shares, marks)

    def find(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of ``hashes`` are in the set, ascending, and the place of each there.

        Shapes: hashes [m] uint64; results [found] int64, [found] int64.
        """
        marked = np.flatnonzero(self.marks[hashes & np.uint64(len(self.marks) - 1)])
        at = np.searchsorted(self.keys, hashes[marked])
        inside = at < len(self.keys)
        marked, at = marked[inside], at[inside]
        same = self.keys[at] == hashes[marked]
        return marked[same], at[same]

    def whose(self, hashes: np.ndarray) -> np.ndarray:
        """The mask of owners of each hash, 0 where nobody has it.

        Shapes: hashes [m] uint64; result [m] uint64.
        """
        found = np.zeros(len(hashes), np.uint64)
        mine, places = self.find(hashes)
        found[mine] = self.owners[places]
        return found


class Copies(NamedTuple):
    """Texts that are copies.

    Shapes: rows [n] int64, ascending; kinds [n] int64, places in :data:`KINDS`; owners [n] uint64, masks.
    """

    rows: np.ndarray
    kinds: np.ndarray
    owners: np.ndarray


class KnownTexts:
    """Texts whose copies are looked for; all are added before the first search.

    Args:
        shortest: words that a text has at least that is found inside a longer one, all of it in a row.
    """

    def __init__(self, shortest: int = GRAM_WORDS) -> None:
        self._added: tuple[list[Added], ...] = ([], [], [])
        self._short: dict[int, list[Added]] = {n_words: [] for n_words in range(shortest, GRAM_WORDS)}

    def add(self, owner: int, texts: pa.Array) -> None:
        """Texts of one owner, in as many blocks as they come in; ``owner`` is a number below ``MOST_OWNERS``."""
        read = plain(texts)
        words, runs = _sketched(read, _ALL_WORDS), _sketched(read, GRAM_WORDS)
        has_words = words.shingles != NO_WORDS
        n_runs = np.diff(runs.offsets)
        shares = np.repeat((1 / n_runs).astype(np.float32), n_runs)
        of_words = np.repeat(has_words, n_runs)
        whole = np.ones(int(has_words.sum()), np.float32)
        self._added[_EXACT].append(Added(owner, _of_bytes(texts)[has_words], whole))
        self._added[_NORMALISED].append(Added(owner, words.shingles[has_words], whole))
        self._added[_GRAM].append(Added(owner, runs.shingles[of_words], shares[of_words]))
        self._add_short(owner, read, words.shingles, runs)

    def _add_short(self, owner: int, read: pa.StringArray, words: np.ndarray, runs: Sketches) -> None:
        """Those of ``n_words`` words, from the longest on: they are one run of so many, and not of one word less."""
        left = np.flatnonzero(_are_one_run(words, runs))
        for n_words in sorted(self._short, reverse=True):
            left = left[_are_one_run(words[left], _sketched(read.take(pa.array(left)), n_words))]
            fewer = _are_one_run(words[left], _sketched(read.take(pa.array(left)), n_words - 1))
            if not fewer.all():
                hashes = words[left[~fewer]]
                self._short[n_words].append(Added(owner, hashes, np.ones(len(hashes), np.float32)))

    @cached_property
    def _added_hashes(self) -> tuple[Hashes, ...]:
        return tuple(Hashes.of(added) for added in self._added)

    @cached_property
    def _known_short(self) -> dict[int, Hashes]:
        return {n_words: Hashes.of(added) for n_words, added in self._short.items() if added}

    def copies_among(self, texts: pa.Array, least_share: float = 0.0) -> Copies:
        """Which of ``texts`` are copies, each of the surest kind.

        Args:
            texts: a block of them.
            least_share: what a copy by runs of 13 words must have: so much of its own runs, or of those of the known
                texts that it takes from; one run in any case.
        """
        owners = self._owners_of_runs(plain(texts), least_share)
        rows = np.flatnonzero(owners)
        if not len(rows):
            return Copies(rows, rows, np.zeros(0, np.uint64))
        found = texts.take(pa.array(rows))
        masks = np.zeros((len(KINDS), len(rows)), np.uint64)
        masks[_NORMALISED] = self._added_hashes[_NORMALISED].whose(_sketched(plain(found), _ALL_WORDS).shingles)
        masks[_EXACT] = np.where(masks[_NORMALISED], self._added_hashes[_EXACT].whose(_of_bytes(found)), 0)
        masks[_GRAM] = owners[rows]
        kinds = (masks != 0).argmax(axis=0)
        return Copies(rows, kinds, masks[kinds, np.arange(len(rows))])

    def _owners_of_runs(self, read: pa.StringArray, least_share: float) -> np.ndarray:
        """Whose runs each text has enough of, a mask; 0: nobody's.

        Shapes: result [texts] uint64.
        """
        owners, known = np.zeros(len(read), np.uint64), self._added_hashes[_GRAM]
        runs = _sketched(read, GRAM_WORDS)
        mine, places = known.find(runs.shingles)
        rows, first = np.unique(_rows(runs, mine), return_index=True)
        if len(rows):
            of_own = np.diff(np.append(first, len(mine))) / np.diff(runs.offsets)[rows]
            of_known = np.add.reduceat(known.shares[places], first, dtype=np.float64)
            enough = np.maximum(of_own, of_known) >= least_share - _ROUNDING
            owners[rows] = np.where(enough, np.bitwise_or.reduceat(known.owners[places], first), 0)
        for n_words, short in self._known_short.items():
            runs = _sketched(read, n_words)
            mine, places = short.find(runs.shingles)
            np.bitwise_or.at(owners, _rows(runs, mine), short.owners[places])
        return owners


def _rows(runs: Sketches, shingles: np.ndarray) -> np.ndarray:
    """The text of each shingle, both by their places."""
    return np.searchsorted(runs.offsets, shingles, side="right") - 1


def _are_one_run(words: np.ndarray, runs: Sketches) -> np.ndarray:
    """Which texts have no more words than a run, by the hashes of all their words."""
    return runs.shingles[runs.offsets[:-1]] == words


def _sketched(read: pa.StringArray, words: int) -> Sketches:
    return sketch_texts(read, words, n_permutations=0)


def _of_bytes(texts: pa.Array) -> np.ndarray:
    return np.fromiter((int(short_id(text), 16) for text in texts.to_pylist()), np.uint64, len(texts))
