"""Words of a text and the tokens of each.

What a WordPiece tokenizer in the manner of BERT makes of a word does not depend on the words around it. So a word is
tokenised when it is first seen and looked up ever after, which is several times faster than tokenising the text. Of
other tokenizers the counts are close, and :func:`pipeline_tasks.corpus.chunking.passages.exact` puts them right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

SPACES = "\t\n\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
STOPS_WITHOUT_SPACE = "。！？｡︒"
CLOSERS = "\"'”’»)]}›」』）】》〉］｣"
_REMEMBERED = 1 << 19
_LONGEST = 100
"""Letters in a row, more of which WordPiece does not look at: they are one unknown token."""


def marked(characters: str) -> np.ndarray:
    """A table of all code points that is True at ``characters``."""
    table = np.zeros(0x110000, bool)
    table[[ord(c) for c in characters]] = True
    return table


_SPACE, _STOP, _CLOSER = marked(SPACES), marked(STOPS_WITHOUT_SPACE), marked(CLOSERS)
_ODD = marked(STOPS_WITHOUT_SPACE + "\x0b\x0c\x1c\x1d\x1e\x1f\x85")
"""Where :meth:`str.split` cuts a text and we do not, or the other way round."""


@dataclass(frozen=True)
class Words:
    """A text as words: what stands between white space, or up to a full stop of a script without spaces.

    Attributes:
        text: the whole text.
        codes: its code points, [c].
        starts, ends: first character of each word and the one after its last, [w].
        words: the words themselves.
        n_tokens: number of tokens of each, [w].
        pieces: the tokens of each.
        is_cut: a word was cut, so that its parts may have other tokens beside each other than alone.
        is_piece: parts of words that as a whole have too many letters in a row for the tokenizer, [w].
        n_unknown: characters of which the tokenizer makes its unknown token.
    """

    text: str
    codes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    words: list[str]
    n_tokens: np.ndarray
    pieces: list[list[int]]
    is_cut: bool
    is_piece: np.ndarray
    n_unknown: int

    @property
    def ids(self) -> np.ndarray:
        """All tokens one after the other, [sum of n_tokens]."""
        return np.fromiter(chain.from_iterable(self.pieces), np.int64, int(self.n_tokens.sum()))

    @property
    def unknown_share(self) -> float:
        """Share of ``n_unknown`` in what is no white space."""
        return self.n_unknown / max(1, int((self.ends - self.starts).sum()))


class WordTokenizer:
    """Turns texts into :class:`Words`, none of more than ``max_tokens`` tokens unless it is a single character.

    Nor has a word more than 100 letters in a row that are one unknown token: ``max_tokens`` would not limit them.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.is_exact = _is_local(tokenizer)
        unknown = getattr(tokenizer.model, "unk_token", None)
        self._unknown = tokenizer.token_to_id(unknown) if unknown else None
        self._known: dict[str, list[int]] = {}
        self._whole = _whole_words(tokenizer) if self.is_exact else {}

    def __call__(self, text: str) -> Words:
        """Words of ``text``."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        starts, ends = word_edges(codes)
        words = _slices(text, codes, starts, ends)
        self._learn(words)
        pieces = [self._known[word] for word in words]
        n_tokens = np.fromiter(map(len, pieces), np.int64, len(pieces))
        overlong = self._overlong(words, pieces)
        is_piece = np.zeros(len(words), bool)
        is_cut = bool(overlong) or int(n_tokens.max(initial=0)) > self.max_tokens
        if is_cut:
            whole = zip(starts.tolist(), words, pieces, strict=True)
            cut = [(*part, w in overlong) for a, w, p in whole for part in self._cut(a, w, p, w in overlong)]
            starts, is_piece = np.array([a for a, *_ in cut]), np.array([of_overlong for *_, of_overlong in cut])
            words, pieces = [w for _, w, *_ in cut], [p for *_, p, _ in cut]
            ends = starts + np.fromiter(map(len, words), np.int64, len(words))
            n_tokens = np.fromiter(map(len, pieces), np.int64, len(pieces))
        unknown = self._unknown_in(words, pieces)
        n_unknown = sum(sum(unknown.get(word, ())) for word in words) if unknown else 0
        return Words(text, codes, starts, ends, words, n_tokens, pieces, is_cut, is_piece, n_unknown)

    def count(self, texts: list[str]) -> list[int]:
        """Tokens of each text as a whole, special tokens not counted."""
        return [len(e.ids) for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _learn(self, words: list[str]) -> None:
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        unknown = [word for word in dict.fromkeys(words) if word not in self._known]
        new = [word for word in unknown if not self._look_up(word)]
        if not self.is_exact:
            encodings = self.tokenizer.encode_batch_fast(new, add_special_tokens=False)
            self._known |= {word: encoding.ids for word, encoding in zip(new, encodings, strict=True)}
        elif new:
            self._learn_together(new)

    def _learn_together(self, new: list[str]) -> None:
        """Tokenise words as one text: neighbours change nothing, and one call is faster than many."""
        encoding = self.tokenizer.encode(" ".join(new), add_special_tokens=False)
        ends = np.cumsum(np.fromiter(map(len, new), np.int64, len(new)) + 1)
        last = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 1]
        edges = np.searchsorted(last, ends - 1, "right").tolist()
        ids = encoding.ids
        for word, a, b in zip(new, [0, *edges], edges, strict=False):
            self._known[word] = ids[a:b]

    def _look_up(self, word: str) -> bool:
        """Learn a word that is in the vocabulary, with a comma or a full stop after it or without."""
        core = word[:-1] if word[-1] in ".," else word
        number = self._whole.get(core.lower() if core.isascii() else "")
        if number is not None:
            self._known[word] = [number] if core is word else [number, self._whole[word[-1]]]
        return number is not None

    def _overlong(self, words: list[str], pieces: list[list[int]]) -> set[str]:
        """The words that have more letters in a row than the tokenizer looks at."""
        long = [(word, p) for word, p in zip(words, pieces, strict=True) if len(word) > _LONGEST]
        unknown = self._unknown_in([word for word, _ in long], [p for _, p in long])
        return {word for word, lengths in unknown.items() if max(lengths, default=0) > _LONGEST}

    def _unknown_in(self, words: list[str], pieces: list[list[int]]) -> dict[str, list[int]]:
        """How many characters each unknown token of a word stands for, by word; of words that have one."""
        different = list(dict.fromkeys(word for word, p in zip(words, pieces, strict=True) if self._unknown in p))
        encodings = self.tokenizer.encode_batch(different, add_special_tokens=False)
        return {
            word: [b - a for n, (a, b) in zip(encoding.ids, encoding.offsets, strict=True) if n == self._unknown]
            for word, encoding in zip(different, encodings, strict=True)
        }

    def _cut(self, at: int, word: str, pieces: list[int], is_overlong: bool) -> Iterator[tuple[int, str, list[int]]]:
        """The word, or where it has too many tokens its parts as the tokenizer sees them, at worst slices or halves."""
        if (len(pieces) <= self.max_tokens and not is_overlong) or len(word) == 1:
            yield at, word, pieces
            return
        edges = _inner_edges(self.tokenizer.encode(word, add_special_tokens=False))
        if not edges:
            edges = [*range(_LONGEST, len(word), _LONGEST)] or [len(word) // 2]
        parts = [word[a:b] for a, b in zip([0, *edges], [*edges, len(word)], strict=True)]
        found = [e.ids for e in self.tokenizer.encode_batch_fast(parts, add_special_tokens=False)]
        overlong = self._overlong(parts, found)
        for part, ids in zip(parts, found, strict=True):
            yield from self._cut(at, part, ids, part in overlong)
            at += len(part)


def word_edges(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First characters of words and the characters after their last ones.

    Shapes:
        codes: [c]; returns two of [w].
    """
    outside = np.concatenate([[True], _SPACE[codes], [True]])
    edges = np.flatnonzero(outside[1:] != outside[:-1])
    starts, ends = edges[0::2], edges[1::2]
    stops = np.concatenate([[0], np.cumsum(_STOP[codes])])
    if stops[-1]:
        closing = np.concatenate([[False], _STOP[codes] | _CLOSER[codes], [False]])
        runs = np.flatnonzero(closing[1:] != closing[:-1])
        cuts = runs[1::2][stops[runs[1::2]] > stops[runs[0::2]]]
        cuts = cuts[~outside[cuts + 1]]
        starts, ends = np.union1d(starts, cuts), np.union1d(ends, cuts)
    return starts, ends


def _slices(text: str, codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[str]:
    if _ODD[codes].any():
        return [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    return text.split()


def _inner_edges(encoding: Encoding) -> list[int]:
    """Characters at which the tokenizer begins another of its own words."""
    numbers = encoding.word_ids
    begins = [
        a
        for (a, _), n, before in zip(encoding.offsets[1:], numbers[1:], numbers, strict=False)
        if n is None or n != before
    ]
    return sorted(set(begins) - {0})


def _whole_words(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens that alone make up a word, by that word; where the tokenizer is cased, none."""
    vocabulary = tokenizer.get_vocab()
    if not tokenizer.normalizer.lowercase or not {".", ","} <= vocabulary.keys():
        return {}
    words = {word: number for word, number in vocabulary.items() if word.isascii() and word.isalnum()}
    return words | {mark: vocabulary[mark] for mark in ".,"}


def _is_local(tokenizer: Tokenizer) -> bool:
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    parts = (
        (tokenizer.model, WordPiece),
        (tokenizer.normalizer, BertNormalizer),
        (tokenizer.pre_tokenizer, BertPreTokenizer),
    )
    return all(isinstance(part, kind) for part, kind in parts)
