"""Token ids of many texts in a memory-mapped Arrow file: texts are read where they lie, and only when needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline_tasks.core import durable
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.progress import meter
from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.training.data.numbering import hashes

Texts = Callable[[], Iterable[pa.Array]]
"""Gives texts in blocks, from the start, in the same order every time."""

_TEXTS_PER_BATCH = 1 << 14
_TYPE = pa.list_(pa.int32())
_KEY = b"key"


@dataclass(frozen=True)
class Tokens:
    """Token ids of numbered texts.

    Attributes:
        lengths: tokens of each text, [n] int32.
        batches: token ids and offsets of equally many texts each, the last of no more, as they lie in the file.
    """

    lengths: np.ndarray
    batches: list[tuple[np.ndarray, np.ndarray]]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> np.ndarray:
        batch, place = divmod(number, len(self.batches[0][1]) - 1)
        values, offsets = self.batches[batch]
        return values[offsets[place] : offsets[place + 1]]


def tokens_of(texts: Texts, path: Path, tokenizer: TextTokens, max_length: int) -> tuple[Tokens, str]:
    """Those of all these texts, equal ones among them, and what stands for texts, tokenizer and length.

    The texts are read once, and a second time where there are tokens to be made. Arguments as of :func:`tokens`.
    """
    digest, total = hashlib.sha256(), 0
    for block in texts():
        digest.update(hashes(block).tobytes())
        total += len(block)
    key = short_id(digest.hexdigest(), tokenizer.meaning, max_length)
    path.parent.mkdir(parents=True, exist_ok=True)
    each = (text for block in texts() for text in block.to_pylist())
    return tokens(path, key, each, total, tokenizer, max_length), key


def tokens(path: Path, key: str, texts: Iterable[str], total: int, tokenizer: TextTokens, max_length: int) -> Tokens:
    """Those in the file, where it holds what ``key`` stands for; else ``texts`` are tokenised into it first.

    Args:
        path: of the file; it appears whole or not at all.
        key: stands for texts, tokenizer and length.
        texts: read only where they must be tokenised.
        total: how many they are.
        tokenizer: of the model.
        max_length: tokens after which a text is cut.
    """
    if not path.is_file() or _key(path) != key:
        part = path.with_suffix(".part")
        schema = pa.schema([pa.field("ids", _TYPE)], metadata={_KEY: key})
        with (
            meter(f"tokenising {path.stem}", total, "texts") as done,
            pa.OSFile(str(part), "wb") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            for ids in _tokenized(texts, tokenizer, max_length):
                writer.write_batch(pa.record_batch([ids], schema=schema))
                done.advance(len(ids))
        durable.replace(part, path)
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        arrays = [reader.get_batch(number).column(0) for number in range(reader.num_record_batches)]
    batches = [(array.values.to_numpy(), array.offsets.to_numpy()) for array in arrays]
    lengths = [np.zeros(0, np.int32), *(np.diff(offsets) for _, offsets in batches)]
    return Tokens(np.concatenate(lengths), batches)


def _tokenized(texts: Iterable[str], tokenizer: TextTokens, max_length: int) -> Iterator[pa.Array]:
    remaining = iter(texts)
    while some := list(islice(remaining, _TEXTS_PER_BATCH)):
        yield pa.array(tokenizer.ids(some, max_length), _TYPE)


def _key(path: Path) -> str:
    try:
        with pa.memory_map(str(path)) as source:
            return (pa.ipc.open_file(source).schema.metadata or {}).get(_KEY, b"").decode()
    except pa.ArrowInvalid:
        return ""
