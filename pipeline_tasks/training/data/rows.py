"""Training rows as numbers: which query, which positive, which negatives, over texts that are tokenised once.

Passages are known by their text, so two ids with one text are one passage and can never be each other's negative.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json, short_id
from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.training.data.examples import SCHEMA, Examples
from pipeline_tasks.training.data.ragged import Ragged
from pipeline_tasks.training.data.reading import Reading, contrasts_of, lengths_of
from pipeline_tasks.training.data.tokens import Tokens, tokens

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rows:
    """Rows over tokenised queries and passages.

    Attributes:
        key: stands for texts, order, tokenizer and lengths, and for everything below.
        queries: distinct queries.
        passages: distinct passages.
        unpooled: how many of a query's first tokens its vector leaves out, [distinct queries].
        query_of: row -> query, [n].
        positive_of: row -> passage, [n].
        negatives_of: row -> passages.
        targets_of: row -> a teacher's scores of the positive and of each negative; none without a teacher.
        contrasts_of: row -> queries that it is told apart from: its own with other instructions, then others.
        n_instructions: how many of these are its own query, [n].
        tuple_of: a number that rows of one tuple share and no other row has, [n].
        answers: query -> every passage that is some row's positive for it, or that a row says is no wrong answer.
        sources: names of where rows are from; of development rows, their intents.
        source_of: row -> one of these, [n].
    """

    key: str
    queries: Tokens
    passages: Tokens
    unpooled: np.ndarray
    query_of: np.ndarray
    positive_of: np.ndarray
    negatives_of: Ragged
    targets_of: Ragged
    contrasts_of: Ragged
    n_instructions: np.ndarray
    tuple_of: np.ndarray
    answers: Ragged
    sources: list[str]
    source_of: np.ndarray

    def __len__(self) -> int:
        return len(self.query_of)

    @cached_property
    def tokens_of(self) -> np.ndarray:
        """Tokens of a row's query, positive and negatives, [n]."""
        of_negatives = np.concatenate([[0], self.passages.lengths[self.negatives_of.values].cumsum()])
        own = self.queries.lengths[self.query_of] + self.passages.lengths[self.positive_of].astype(np.int64)
        return own + np.diff(of_negatives[self.negatives_of.offsets])


def tokenized(
    examples: Examples, tokenizer: TextTokens, folder: Path, *, max_query_length: int, max_passage_length: int
) -> Rows:
    """Number the distinct texts of ``examples`` and have their tokens in ``folder``, where they may be already.

    The examples are read once, and a second time where there are tokens to be made; beside a block of them, a few
    numbers a row are in memory.

    Args:
        examples: rows.
        tokenizer: of the model.
        folder: for the files of these rows and no others; a killed call goes on with those that are whole.
        max_query_length: tokens after which a query is cut, instruction included.
        max_passage_length: tokens after which a passage is cut.

    Raises:
        InputError: a block lacks a column or has a value missing, a teacher scored more or fewer passages than a row
            has, prompts are more or fewer than a block's other queries, or one leaves no token of a query.
    """
    folder.mkdir(parents=True, exist_ok=True)
    read = Reading(tokenizer)
    for block in examples.blocks():
        read.add(_checked(block))
    read.passages.add(pa.array(examples.others, pa.string()))
    lengths = [max_query_length, max_passage_length]
    key = short_id(read.queries.digest().hex(), read.passages.digest().hex(), tokenizer.meaning, lengths)
    numbers, prompted, first_query, first_passage = read.finish()
    queries, passages = (
        tokens(folder / f"{name}.arrow", f"{key}/{name}", texts, len(first), tokenizer, length)
        for name, texts, first, length in (
            ("queries", _queries(examples, first_query), first_query, max_query_length),
            ("passages", _passages(examples, first_passage), first_passage, max_passage_length),
        )
    )
    for what, made, longest in (("query", queries, max_query_length), ("passage", passages, max_passage_length)):
        if len(made) and not made.lengths.min():
            raise InputError(f"a {what} has no token: leave its rows out, or give it a text")
        if reach := int((made.lengths >= longest).sum()):
            message = "%s: of %d texts that are a %s, %d reach max_%s_length=%d, the tokens after which they are cut"
            log.info(message, folder.name, len(made), what, reach, what, longest)
    cut = queries.lengths >= max_query_length
    if len(full := np.flatnonzero((prompted > 0) & cut & (prompted >= queries.lengths - tokenizer.n_after))):
        raise InputError(
            f"max_query_length={max_query_length} leaves nothing of {len(full)} queries behind an instruction of "
            f"{prompted[full].max()} tokens: raise it, or shorten the instruction"
        )
    return Rows(_digest(key, numbers), queries, passages, **numbers)


def _checked(block: pa.Table) -> pa.Table:
    """The block with every column of the schema.

    Raises:
        InputError: as :func:`tokenized` says.
    """
    for field in SCHEMA:
        if field.name not in block.column_names:
            if field.name in ("query", "positive"):
                raise InputError(f"training rows without a column {field.name!r}: there are {block.column_names}")
            empty = pa.array([[] if pa.types.is_list(field.type) else ""] * len(block), field.type)
            block = block.append_column(field, empty)
        elif block[field.name].null_count:
            raise InputError(f"a training row has no {field.name}: leave the row out, or give an empty value")
    n_prompts = len(block["other_prompts"].combine_chunks().flatten())
    if n_prompts and n_prompts != (n := len(contrasts_of(block).flatten())):
        raise InputError(f"{n_prompts} prompts of {n} other queries: give one for each, or none")
    scored = lengths_of(block["targets"].combine_chunks())
    wanted = 1 + lengths_of(block["negatives"].combine_chunks())
    wrong = np.flatnonzero((scored > 0) & (scored != wanted))
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"{scored[at]} teacher's scores for {block['query'][at].as_py()!r} with {wanted[at] - 1} negatives: give "
            "one for the positive and one for each negative, or none"
        )
    return block


def _queries(examples: Examples, first: np.ndarray) -> Iterator[str]:
    start = 0
    for block in examples.blocks():
        for texts in (block["query"], contrasts_of(block).flatten()):
            yield from _first_ones(texts, first, start)
            start += len(texts)


def _passages(examples: Examples, first: np.ndarray) -> Iterator[str]:
    start = 0
    for block in examples.blocks():
        yield from _first_ones(block["positive"], first, start)
        start += len(block)
        if "negatives" in block.column_names:
            negatives = block["negatives"].combine_chunks().flatten()
            yield from _first_ones(negatives, first, start)
            start += len(negatives)
    yield from _first_ones(pa.array(examples.others, pa.string()), first, start)


def _first_ones(texts: pa.Array | pa.ChunkedArray, first: np.ndarray, start: int) -> list[str]:
    """Those of ``texts``, the first of which has the place ``start``, that have not come before."""
    found = np.searchsorted(first, [start, start + len(texts)])
    return texts.take(pa.array(first[found[0] : found[1]] - start)).to_pylist()


def _digest(key: str, numbers: dict[str, Any]) -> str:
    """A hash of the texts, which ``key`` stands for, and of the rows made of them."""
    digest = hashlib.sha256(canonical_json([key, numbers["sources"]]))
    for value in numbers.values():
        arrays = (value.offsets, value.values) if isinstance(value, Ragged) else (value,)
        for array in arrays if not isinstance(value, list) else ():
            digest.update(len(array).to_bytes(8, "little") + array.tobytes())
    return digest.hexdigest()
