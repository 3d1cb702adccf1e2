"""Texts as token ids and padded batches, for training as for search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_AT_ONCE = 1024


class TextTokens:
    """Token ids of texts, each ending in the token that its model wants at the end.

    Args:
        tokenizer: of the model.
        append: token that every text ends in.
        n_tokens: rows of the model's token embeddings; None: not known.
        model: what it is called where it has no such row.
    """

    def __init__(
        self, tokenizer: Tokenizer, append: str = "", n_tokens: int | None = None, model: str = "the model"
    ) -> None:
        tokenizer.no_padding()  # files may have some, which would be counted as tokens
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._end = _missing_end(tokenizer, append)
        self._n_tokens, self._model = n_tokens, model

    @property
    def meaning(self) -> str:
        """A hash of what it makes of texts, whatever lengths it was last asked for."""
        said = json.loads(self._tokenizer.to_str())
        return short_id({name: part for name, part in said.items() if name not in ("truncation", "padding")}, self._end)

    @property
    def end(self) -> list[int]:
        """The ids that are put behind what the tokenizer makes of a text."""
        return self._end

    @property
    def n_after(self) -> int:
        """How many tokens end every text."""
        self._tokenizer.no_truncation()
        special = self._tokenizer.encode("a").special_tokens_mask
        return int(special[-1] == 1) + len(self._end)

    def ids(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """The ids of each text, cut to ``max_length`` with the tokens at its ends in place: int32 arrays.

        Raises:
            InputError: see :meth:`check`.
        """
        self._tokenizer.enable_truncation(max_length - len(self._end))
        self._tokenizer.no_padding()
        found: list[np.ndarray] = []
        for start in range(0, len(texts), _AT_ONCE):
            encodings = self._tokenizer.encode_batch_fast(list(texts[start : start + _AT_ONCE]))
            found += [np.array(encoding.ids + self._end, dtype=np.int32) for encoding in encodings]
            self.check(int(np.concatenate(found[start:]).max(initial=0)))
        return found

    def check(self, highest: int) -> None:
        """Refuse a token that the model has no embedding of; those that no text has may lack one.

        Raises:
            InputError: there is one: the tokenizer is another model's.
        """
        if self._n_tokens is not None and highest >= self._n_tokens:
            raise InputError(
                f"the tokenizer of {self._model} gives token {highest} ({self._tokenizer.id_to_token(highest)!r}), and "
                f"its embeddings have {self._n_tokens} rows: save there the tokenizer that the model was trained with"
            )

    def prefix_lengths(self, prefixes: Sequence[str]) -> np.ndarray:
        """First tokens of a text that are of its prefix, counted as sentence-transformers does; 0 without one.

        Shapes:
            returns [n] int64.
        """
        self._tokenizer.no_truncation()
        lengths = {"": 0}
        for prefix in set(prefixes) - {""}:
            special = self._tokenizer.encode(prefix).special_tokens_mask
            lengths[prefix] = len(special) - (special[-1] == 1)
        return np.array([lengths[prefix] for prefix in prefixes], np.int64)


def _missing_end(tokenizer: Tokenizer, wanted: str) -> list[int]:
    """The id that has to be added to every input so that it ends in ``wanted``, or nothing."""
    if not wanted:
        return []
    end = tokenizer.token_to_id(wanted)
    if end is None:
        raise InputError(f"the tokenizer knows no token {wanted!r}: mend `append` in the registry")
    return [] if tokenizer.encode("a").ids[-1:] == [end] else [end]


def padded(sequences: Sequence[np.ndarray], pad_id: int, unpooled: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Sequences as one batch, padded on the right; the first ``unpooled`` tokens of each are left out of a mean.

    Shapes:
        ``input_ids``, ``attention_mask`` (1: a token) and ``pooling_mask`` (1: a token that a mean is over): [b, s]
        int64, s the longest sequence; unpooled: [b].
    """
    ids = np.full((len(sequences), max(len(row) for row in sequences)), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(sequences):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    pooled = mask if unpooled is None else mask * (np.arange(mask.shape[1]) >= unpooled[:, None])
    return {"input_ids": ids, "attention_mask": mask, "pooling_mask": pooled}
