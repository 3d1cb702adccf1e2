"""What encoders that run a model themselves share: tokens, batches of about equal cost, pooled vectors.

The texts are sorted by length, then text, before they are cut into batches: the same set of texts gives the same
bytes on the same machine. Other texts in the same call change a vector of the torch
encoder in the last bits only, since kernels add up in an order that depends on the batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.retrieval.batches import padded, plan_batches
from pipeline_tasks.retrieval.encoder import Encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENISE_AT_ONCE = 1024
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


class TokenEncoder(Encoder):
    """An encoder that is fed token ids. Padding is on the right and has no say, also where the last token is taken."""

    def __init__(self, name: str, dim: int, layout: Layout, tokenizer: Tokenizer, batch_tokens: int) -> None:
        super().__init__(name, dim, layout)
        self._tokenizer, self._batch_tokens = tokenizer, batch_tokens
        self._end = _missing_end(tokenizer, layout.append)
        tokenizer.enable_truncation(layout.max_length - len(self._end))

    def _vectors(
        self, texts: Sequence[str], prefixes: Sequence[str], done: Callable[[Sequence[int]], None]
    ) -> np.ndarray:
        tokens = self._tokens(texts)
        batches = list(plan_batches([len(ids) for ids in tokens], self._batch_tokens))
        skipped = self._prefix_lengths(prefixes)
        vectors = np.empty((len(texts), self.dim), np.float32)
        feeds = (self._feed([tokens[row] for row in batch], skipped[batch]) for batch in batches)
        for batch, pooled in zip(batches, self._pooled_each(feeds), strict=True):
            vectors[batch] = pooled
            done(batch)
        return vectors

    def _feed(self, tokens: Sequence[np.ndarray], skipped: np.ndarray) -> Batch:
        ids, mask = padded(tokens, self.layout.pad_id)
        return ids, mask, mask * (np.arange(mask.shape[1]) >= skipped[:, None])

    def _prefix_lengths(self, prefixes: Sequence[str]) -> np.ndarray:
        """First tokens of each text that a mean leaves out, counted as sentence-transformers does: [n], int64."""
        lengths: dict[str, int] = {}
        for prefix in set(prefixes) - {""} if not self.layout.pools_prefix else ():
            special = self._tokenizer.encode(prefix).special_tokens_mask
            lengths[prefix] = len(special) - (special[-1] == 1)
        return np.array([lengths.get(prefix, 0) for prefix in prefixes], np.int64)

    def _tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        tokens: list[np.ndarray] = []
        for start in range(0, len(texts), _TOKENISE_AT_ONCE):
            encodings = self._tokenizer.encode_batch_fast(texts[start : start + _TOKENISE_AT_ONCE])
            tokens += [np.array(encoding.ids + self._end, dtype=np.int64) for encoding in encodings]
        empty = next((text for text, ids in zip(texts, tokens, strict=True) if not len(ids)), None)
        if empty is not None:
            raise InputError(f"the text {empty!r} has no tokens for {self.name}: leave it out")
        return tokens

    def _pooled_each(self, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
        """What :meth:`pooled` gives for each batch, in order."""
        return (self.pooled(*batch) for batch in batches)

    @abstractmethod
    def pooled(self, ids: np.ndarray, mask: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """One vector per row of a padded batch.

        Shapes:
            ids, mask (1: a token), counted (1: a token that a mean is over): [b, s], int64; returns [b, d], float32.
        """


def _missing_end(tokenizer: Tokenizer, wanted: str) -> list[int]:
    """The id that has to be added to every input so that it ends in ``wanted``, or nothing."""
    if not wanted:
        return []
    end = tokenizer.token_to_id(wanted)
    if end is None:
        raise InputError(f"the tokenizer knows no token {wanted!r}: mend `append` in the registry")
    return [] if tokenizer.encode("a").ids[-1:] == [end] else [end]
