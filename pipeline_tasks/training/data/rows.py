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
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json, short_id
from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.training.data.examples import CONTRASTS, SCHEMA, Examples
from pipeline_tasks.training.data.numbering import Numbering, hashes
from pipeline_tasks.training.data.ragged import Ragged
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
    read = _Reading(tokenizer)
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


class _Reading:
    """What is kept of the texts while they are read for the first time."""

    def __init__(self, tokenizer: TextTokens) -> None:
        self.queries, self.passages, self._tuples = Numbering(), Numbering(), Numbering()
        self._in_tuple: list[np.ndarray] = []
        self._tokenizer = tokenizer
        self._unpooled: list[np.ndarray] = []
        self._pooled: list[np.ndarray] = []
        self._sources: dict[str, int] = {}
        self._source_of: list[np.ndarray] = []
        self._rows: list[int] = []
        self._negatives: list[np.ndarray] = []
        self._targets: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []
        self._answers: list[np.ndarray] = []
        self._answer_hashes: list[np.ndarray] = []
        self._contrasts: list[np.ndarray] = []
        self._instructions: list[np.ndarray] = []

    def add(self, block: pa.Table) -> None:
        negatives, targets, answers = (block[name].combine_chunks() for name in ("negatives", "targets", "answers"))
        contrasts = _contrasts(block)
        self.queries.add(block["query"])
        self.queries.add(contrasts.flatten())
        self.passages.add(block["positive"])
        self.passages.add(negatives.flatten())
        self._unpooled.append(self._prefix_lengths(block["prompt"].combine_chunks()))
        self._pooled.append(self._prefix_lengths(block["pooled_prompt"].combine_chunks()))
        prompts, n_contrasts = block["other_prompts"].combine_chunks().flatten(), len(contrasts.flatten())
        self._unpooled.append(self._prefix_lengths(prompts) if len(prompts) else np.zeros(n_contrasts, np.int64))
        self._contrasts.append(_lengths(contrasts))
        self._instructions.append(_lengths(block["other_instructions"].combine_chunks()))
        self._tuples.add(block["tuple"])
        self._in_tuple.append(pc.not_equal(block["tuple"], "").to_numpy())
        coded = block["source"].combine_chunks().dictionary_encode()
        numbers = [self._sources.setdefault(name, len(self._sources)) for name in coded.dictionary.to_pylist()]
        self._source_of.append(np.array(numbers, np.int16)[coded.indices.to_numpy()])
        self._rows.append(len(block))
        self._negatives.append(_lengths(negatives))
        self._targets.append(_lengths(targets))
        self._scores.append(targets.flatten().to_numpy(zero_copy_only=False))
        self._answers.append(_lengths(answers))
        self._answer_hashes.append(hashes(answers.flatten()))

    def _prefix_lengths(self, prompts: pa.Array) -> np.ndarray:
        coded = prompts.dictionary_encode()
        return self._tokenizer.prefix_lengths(coded.dictionary.to_pylist())[coded.indices.to_numpy()]

    def finish(self) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
        """The rows but for the tokens; how long each query's prompt is; where queries came first, and passages."""
        query_at, first_query = self.queries.finish()
        passage_at, first_passage = self.passages.finish()
        queries, contrasts = _apart(query_at, self._rows, self._contrasts)
        positives, negatives = _apart(passage_at, self._rows, self._negatives)
        query_of, positive_of = (np.concatenate([np.zeros(0, np.int64), *pieces]) for pieces in (queries, positives))
        further = np.concatenate([np.zeros(0, np.int64), *map(self.passages.find, self._answer_hashes)])
        asking = np.repeat(query_of, np.concatenate([np.zeros(0, np.int64), *self._answers]))[further >= 0]
        answers = np.concatenate([query_of, asking]), np.concatenate([positive_of, further[further >= 0]])
        tuples, alone = self._tuples.finish()[0], ~np.concatenate([np.zeros(0, bool), *self._in_tuple])
        tuples[alone] = len(tuples) + np.arange(alone.sum())
        unpooled = np.concatenate([np.zeros(0, np.int64), *self._unpooled])[first_query]
        np.maximum.at(prompted := unpooled.copy(), query_of, np.concatenate([np.zeros(0, np.int64), *self._pooled]))
        numbers = {
            "unpooled": unpooled,
            "query_of": query_of,
            "positive_of": positive_of,
            "negatives_of": Ragged.joined(self._negatives, negatives, np.int64),
            "targets_of": Ragged.joined(self._targets, self._scores, np.float32),
            "contrasts_of": Ragged.joined(self._contrasts, contrasts, np.int64),
            "n_instructions": np.concatenate([np.zeros(0, np.int64), *self._instructions]),
            "tuple_of": tuples,
            "answers": _answers(*answers, len(first_query)),
            "sources": list(self._sources),
            "source_of": np.concatenate([np.zeros(0, np.int16), *self._source_of]),
        }
        return numbers, prompted, first_query, first_passage


def _contrasts(block: pa.Table) -> pa.ListArray:
    """Of each row the queries that it is told apart from: its own with other instructions, then others."""
    lists = [block[name].to_pylist() if name in block.column_names else [[]] * len(block) for name in CONTRASTS]
    return pa.array([[*own, *others] for own, others in zip(*lists, strict=True)], pa.list_(pa.string()))


def _apart(
    numbers: np.ndarray, rows: list[int], lengths: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of each block what its rows have one of, and what they have lists of; the lists follow the rows."""
    firsts, lists, start = [], [], 0
    for n_rows, of_rows in zip(rows, lengths, strict=True):
        end = start + n_rows + int(of_rows.sum())
        firsts.append(numbers[start : start + n_rows])
        lists.append(numbers[start + n_rows : end])
        start = end
    return firsts, lists


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
    if n_prompts and n_prompts != (n := len(_contrasts(block).flatten())):
        raise InputError(f"{n_prompts} prompts of {n} other queries: give one for each, or none")
    scored = _lengths(block["targets"].combine_chunks())
    wanted = 1 + _lengths(block["negatives"].combine_chunks())
    wrong = np.flatnonzero((scored > 0) & (scored != wanted))
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"{scored[at]} teacher's scores for {block['query'][at].as_py()!r} with {wanted[at] - 1} negatives: give "
            "one for the positive and one for each negative, or none"
        )
    return block


def _lengths(lists: pa.ListArray) -> np.ndarray:
    return np.diff(lists.offsets.to_numpy()).astype(np.int64)


def _answers(query_of: np.ndarray, positive_of: np.ndarray, n_queries: int) -> Ragged:
    order = np.lexsort((positive_of, query_of))
    query, positive = query_of[order], positive_of[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (query[1:] != query[:-1]) | (positive[1:] != positive[:-1])
    return Ragged.joined([np.bincount(query[fresh], minlength=n_queries)], [positive[fresh]], np.int64)


def _queries(examples: Examples, first: np.ndarray) -> Iterator[str]:
    start = 0
    for block in examples.blocks():
        for texts in (block["query"], _contrasts(block).flatten()):
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
