"""What is kept of training rows while their texts are read for the first time, and the numbers that this becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.training.data.examples import CONTRASTS
from pipeline_tasks.training.data.growing import Growing
from pipeline_tasks.training.data.numbering import Numbering, hashes
from pipeline_tasks.training.data.ragged import Ragged


class Reading:
    """Hashes of all texts, and lengths of all lists; what no row has takes no memory."""

    def __init__(self, tokenizer: TextTokens) -> None:
        self.queries, self.passages, self._tuples = Numbering(), Numbering(), Numbering()
        self._tokenizer = tokenizer
        self._unpooled, self._pooled = Growing(np.int32), Growing(np.int32)
        self._sources: dict[str, int] = {}
        self._source_of, self._in_tuple = Growing(np.int16), Growing(np.bool_)
        self._negatives, self._targets, self._scores = Growing(np.int32), Growing(np.int32), Growing(np.float32)
        self._answers, self._answer_hashes = Growing(np.int32), Growing(np.uint64)
        self._contrasts, self._instructions = Growing(np.int32), Growing(np.int64)
        self._n_rows: list[int] = []  # of each block, as the next two
        self._n_contrasts: list[int] = []
        self._n_negatives: list[int] = []

    def add(self, block: pa.Table) -> None:
        """Take in a block that has every column."""
        negatives, targets, answers = (block[name].combine_chunks() for name in ("negatives", "targets", "answers"))
        contrasts = contrasts_of(block)
        self.queries.add(block["query"])
        self.queries.add(contrasts.flatten())
        self.passages.add(block["positive"])
        self.passages.add(negatives.flatten())
        self._unpooled.add(self._prefix_lengths(block["prompt"].combine_chunks()))
        self._pooled.add(self._prefix_lengths(block["pooled_prompt"].combine_chunks()))
        prompts, n_contrasts = block["other_prompts"].combine_chunks().flatten(), len(contrasts.flatten())
        self._unpooled.add(self._prefix_lengths(prompts) if len(prompts) else np.zeros(n_contrasts, np.int32))
        self._contrasts.add(lengths_of(contrasts))
        self._instructions.add(lengths_of(block["other_instructions"].combine_chunks()))
        self._add_tuples(block["tuple"].combine_chunks())
        coded = block["source"].combine_chunks().dictionary_encode()
        numbers = [self._sources.setdefault(name, len(self._sources)) for name in coded.dictionary.to_pylist()]
        self._source_of.add(np.array(numbers, np.int16)[coded.indices.to_numpy()])
        self._negatives.add(lengths_of(negatives))
        self._targets.add(lengths_of(targets))
        self._scores.add(targets.flatten().to_numpy(zero_copy_only=False))
        self._answers.add(lengths_of(answers))
        self._answer_hashes.add(hashes(answers.flatten()))
        self._n_rows.append(len(block))
        self._n_contrasts.append(n_contrasts)
        self._n_negatives.append(len(negatives.flatten()))

    def _add_tuples(self, names: pa.Array) -> None:
        """Names are kept from the first row on that has one."""
        is_named = pc.not_equal(names, "").to_numpy(zero_copy_only=False)
        if is_named.any() and not self._in_tuple.any():
            self._tuples.add(pa.repeat("", sum(self._n_rows)))
        self._in_tuple.add(is_named)
        if self._in_tuple.any():
            self._tuples.add(names)

    def _prefix_lengths(self, prompts: pa.Array) -> np.ndarray:
        coded = prompts.dictionary_encode()
        return self._tokenizer.prefix_lengths(coded.dictionary.to_pylist())[coded.indices.to_numpy()]

    def finish(self) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
        """The rows but for the tokens; how long each query's prompt is; where queries came first, and passages."""
        query_at, first_query = self.queries.finish()
        query_of, contrasts = _apart(query_at, self._n_rows, self._n_contrasts)
        further = self._answer_hashes.array().reshape(-1, 2)
        passage_at, first_passage = self.passages.finish(find=len(further) > 0)
        positive_of, negatives = _apart(passage_at, self._n_rows, self._n_negatives)
        unpooled = self._unpooled.array()[first_query].astype(np.int64)
        np.maximum.at(prompted := unpooled.copy(), query_of, self._pooled.array())
        numbers = {
            "unpooled": unpooled,
            "query_of": query_of,
            "positive_of": positive_of,
            "negatives_of": Ragged.of(self._negatives.array(), negatives),
            "targets_of": Ragged.of(self._targets.array(), self._scores.array()),
            "contrasts_of": Ragged.of(self._contrasts.array(), contrasts),
            "n_instructions": self._instructions.array(),
            "tuple_of": self._tuple_of(len(query_of)),
            "answers": self._answered(query_of, positive_of, self.passages.find(further), len(first_query)),
            "sources": list(self._sources),
            "source_of": self._source_of.array(),
        }
        return numbers, prompted, first_query, first_passage

    def _tuple_of(self, n: int) -> np.ndarray:
        """Of rows without a name each has a number of its own."""
        if not self._in_tuple.any():
            return np.arange(n, 2 * n)
        tuples, alone = self._tuples.finish()[0], ~self._in_tuple.array()
        tuples[alone] = n + np.arange(alone.sum())
        return tuples

    def _answered(self, query_of: np.ndarray, positive_of: np.ndarray, further: np.ndarray, n_queries: int) -> Ragged:
        """Query -> every passage that is some row's positive for it, or that a row names; ``further`` [answers]."""
        if len(further):
            asking = np.repeat(query_of, self._answers.array())[further >= 0]
            query_of = np.concatenate([query_of, asking])
            positive_of = np.concatenate([positive_of, further[further >= 0]])
        return _answers(query_of, positive_of, n_queries)


def contrasts_of(block: pa.Table) -> pa.ListArray:
    """Of each row the queries that it is told apart from: its own with other instructions, then others."""
    lists = [block[name].to_pylist() if name in block.column_names else [[]] * len(block) for name in CONTRASTS]
    return pa.array([[*own, *others] for own, others in zip(*lists, strict=True)], pa.list_(pa.string()))


def lengths_of(lists: pa.ListArray) -> np.ndarray:
    """Of each list, [n]."""
    return np.diff(lists.offsets.to_numpy()).astype(np.int64)


def _apart(numbers: np.ndarray, rows: list[int], lists: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """What rows have one of, and what they have lists of, where a block's lists follow its rows."""
    counts = np.array(list(zip(rows, lists, strict=True)), np.int64).ravel()
    used = numbers[: counts.sum()]
    if not any(lists):
        return used, np.zeros(0, np.int64)
    of_rows = np.repeat(np.arange(len(counts)) % 2 == 0, counts)
    return used[of_rows], used[~of_rows]


def _answers(query_of: np.ndarray, positive_of: np.ndarray, n_queries: int) -> Ragged:
    order = np.lexsort((positive_of, query_of))
    query, positive = query_of[order], positive_of[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (query[1:] != query[:-1]) | (positive[1:] != positive[:-1])
    return Ragged.of(np.bincount(query[fresh], minlength=n_queries), positive[fresh])
