"""Texts to unit vectors, whatever runs the model.

What holds for every encoder:

- Vectors do not depend on the order of the texts, and equal texts get equal vectors: the distinct texts are
  sorted by length, then text, before they are cut into batches of about equal cost, and each is encoded once.
- The same set of texts gives the same bytes on the same machine with the same number of threads.
- Other texts in the same call change a vector of the torch encoder in the last bits only, since kernels add
  up in an order that depends on the batch. The int8 encoder runs one text at a time: there a batch would
  share one scale, and neighbours would turn a vector (measured: cosine 0.995 to itself).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import path_of
from pipeline_tasks.models.registry import ModelSpec, get
from pipeline_tasks.models.use import folder as folder_of
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.layout import Layout, layout_of_folder, layout_of_spec

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Progress = Callable[[int], object]
_TOKENISE_AT_ONCE = 1024


class Encoder(ABC):
    """A model that turns texts into unit vectors."""

    def __init__(self, name: str, dim: int, layout: Layout, tokenizer: Tokenizer, batch_tokens: int) -> None:
        self.name, self.dim, self.layout = name, dim, layout
        self._tokenizer, self._batch_tokens = tokenizer, batch_tokens
        tokenizer.enable_truncation(layout.max_length)

    def encode_queries(
        self, texts: Sequence[str], intents: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> np.ndarray:
        """Encode queries, each after the instruction of its intent (or the model's own). See ``encode``."""
        of_each = intents if intents is not None else [None] * len(texts)
        if len(of_each) != len(texts):
            raise InputError(
                f"{len(texts)} queries with {len(of_each)} intents: give one intent per query, or none at all"
            )
        prefixes = [self.layout.query_prefix(intent) for intent in of_each]
        return self.encode(texts, prefixes, progress=progress)

    def encode_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> np.ndarray:
        """Encode passages, each after the model's passage prefix. See ``encode``."""
        return self.encode(texts, [self.layout.passage_prefix()] * len(texts), progress=progress)

    def encode(
        self, texts: Sequence[str], prefixes: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> np.ndarray:
        """Encode texts, each after its prefix; ``progress`` is told how many more are done.

        Shapes:
            returns [n, d], float32, rows of length 1, in the order of ``texts``.

        Raises:
            InputError: a text has no tokens.
        """
        prefixes = prefixes or [""] * len(texts)
        texts = [prefix + text for prefix, text in zip(prefixes, texts, strict=True)]
        prefix_of = dict(zip(texts, prefixes, strict=True))
        distinct = sorted(set(texts))
        copies = Counter(texts)
        tokens = self._tokens(distinct)
        unpooled = self._prefix_lengths([prefix_of[text] for text in distinct])
        vectors = np.empty((len(distinct), self.dim), dtype=np.float32)
        for batch in plan_batches([len(ids) for ids in tokens], self._batch_tokens):
            ids, mask = padded([tokens[i] for i in batch], self.layout.pad_id)
            vectors[batch] = self._pooled(ids, mask, mask * (np.arange(mask.shape[1]) >= unpooled[batch, None]))
            if progress is not None:
                progress(sum(copies[distinct[i]] for i in batch))
        row_of = {text: row for row, text in enumerate(distinct)}
        return normalised(vectors)[[row_of[text] for text in texts]]

    def _tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        tokens: list[np.ndarray] = []
        for start in range(0, len(texts), _TOKENISE_AT_ONCE):
            encodings = self._tokenizer.encode_batch_fast(texts[start : start + _TOKENISE_AT_ONCE])
            tokens += [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
        empty = next((text for text, ids in zip(texts, tokens, strict=True) if not len(ids)), None)
        if empty is not None:
            raise InputError(f"the text {empty!r} has no tokens for {self.name}: leave empty texts out")
        return tokens

    def _prefix_lengths(self, prefixes: Sequence[str]) -> np.ndarray:
        """First tokens of each text that pooling leaves out, counted as sentence-transformers does: [n], int64."""
        lengths = {"": 0}
        for prefix in set(prefixes) - {""} if not self.layout.pools_prefix else ():
            special = self._tokenizer.encode(prefix).special_tokens_mask
            lengths[prefix] = len(special) - (special[-1] == 1)
        return np.array([lengths.get(prefix, 0) for prefix in prefixes], dtype=np.int64)

    @abstractmethod
    def _pooled(self, ids: np.ndarray, mask: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """One vector per row of a padded batch.

        Shapes:
            ids, mask (1: a token), counted (1: a token that a mean is over): [b, s], int64; returns [b, d], float32.
        """


def plan_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut positions into batches of like length, longest first, of at most ``budget`` padded tokens or one text.

    Longest first: what does not fit into memory fails at once, and the estimate of the time left errs on the
    safe side.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


def padded(tokens: Sequence[np.ndarray], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids as one matrix, padded on the right, and the mask that is 1 where a token is.

    Shapes:
        returns two [b, s], int64, where s is the longest row.
    """
    ids = np.full((len(tokens), max(len(row) for row in tokens)), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(tokens):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a zero row stays zero.

    Shapes:
        [n, d] -> [n, d]
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def load_encoder(model: ModelSpec | Path, cache_dir: Path, threads: int = 2, device: str = "cpu") -> Encoder:
    """The encoder of a registered model or of any sentence-transformers folder; its files say what runs it.

    Raises:
        InputError: the model is not in the cache, or the folder is of no kind that is supported.
    """
    if isinstance(model, ModelSpec):
        folder = path_of(model, cache_dir)
        name, layout = model.name, layout_of_spec(model, folder)
    else:
        folder, name, layout = model, model.name, layout_of_folder(model)
    tokenizer = load_tokenizer(folder)
    if (folder / "model.onnx").is_file():
        from pipeline_tasks.retrieval.onnx_encoder import OnnxEncoder

        return OnnxEncoder(name, folder, layout, tokenizer, threads)
    from pipeline_tasks.retrieval.torch_encoder import TorchEncoder

    return TorchEncoder(name, folder, layout, tokenizer, threads, device)


@lru_cache(maxsize=1)
def open_encoder(name: str) -> Encoder:
    """The registered encoder of that name under this machine's settings; the last one opened stays loaded.

    Raises:
        InputError: unknown, not fetched, or fetched from another source than the settings name.
    """
    folder_of(name)
    return load_encoder(get(name), settings().cache, settings().threads)
