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
from pipeline_tasks.encoders.tokens import TextTokens, padded
from pipeline_tasks.retrieval.batches import batches_by_length
from pipeline_tasks.retrieval.encoder import Encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Batch = dict[str, np.ndarray]
"""As :func:`~pipeline_tasks.encoders.tokens.padded` gives it."""


class TokenEncoder(Encoder):
    """An encoder that is fed token ids. Padding is on the right and has no say, also where the last token is taken."""

    def __init__(self, name: str, dim: int, layout: Layout, tokenizer: Tokenizer, batch_tokens: int) -> None:
        super().__init__(name, dim, layout)
        self._tokenizer, self._batch_tokens = TextTokens(tokenizer, layout.append, layout.n_tokens, name), batch_tokens

    def _vectors(
        self, texts: Sequence[str], prefixes: Sequence[str], done: Callable[[Sequence[int]], None]
    ) -> np.ndarray:
        tokens = self._tokens(texts)
        batches = list(batches_by_length([len(ids) for ids in tokens], self._batch_tokens))
        skipped = self._tokenizer.prefix_lengths([""] * len(texts) if self.layout.pools_prefix else prefixes)
        vectors = np.empty((len(texts), self.dim), np.float32)
        feeds = (padded([tokens[row] for row in batch], self.layout.pad_id, skipped[batch]) for batch in batches)
        for batch, pooled in zip(batches, self._pooled_each(feeds), strict=True):
            vectors[batch] = pooled
            done(batch)
        return vectors

    def _tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        tokens = self._tokenizer.ids(texts, self.layout.max_length)
        empty = next((text for text, ids in zip(texts, tokens, strict=True) if not len(ids)), None)
        if empty is not None:
            raise InputError(f"the text {empty!r} has no tokens for {self.name}: leave it out")
        return tokens

    def _pooled_each(self, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
        """What :meth:`pooled` gives for each batch, in order."""
        return (self.pooled(batch) for batch in batches)

    @abstractmethod
    def pooled(self, batch: Batch) -> np.ndarray:
        """One vector per row of a padded batch.

        Shapes:
            batch: [b, s] each; returns [b, d], float32.
        """
