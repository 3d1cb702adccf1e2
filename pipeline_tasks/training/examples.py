"""Training rows and development queries as text, and the same as token ids.

Every distinct text is tokenised once and passages are known by number, so two ids with one text are one
passage and can never be each other's negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.tokens import TextTokens

TokenIds = np.ndarray


@dataclass(frozen=True)
class TrainingSet:
    """Queries (instruction prepended), the id of each one's positive, ids of its hard negatives, hardest first.

    ``negative_ids`` is empty, or has one (possibly empty) sequence per query. ``passages`` maps id to text.
    ``unpooled`` is empty, or has the instruction that each query begins with and that its vector leaves out.
    ``teacher_scores`` is empty, or has per query a teacher's score of its positive and of each negative, in this order,
    or nothing where it has no teacher.
    """

    queries: Sequence[str]
    positive_ids: Sequence[str]
    passages: Mapping[str, str]
    negative_ids: Sequence[Sequence[str]] = ()
    unpooled: Sequence[str] = ()
    teacher_scores: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class DevSet:
    """Held-out queries, the id of each one's positive, and the passages to search, positives included."""

    queries: Sequence[str] = ()
    positive_ids: Sequence[str] = ()
    passages: Mapping[str, str] | None = None
    unpooled: Sequence[str] = ()


@dataclass(frozen=True)
class TokenSet:
    """A set of rows over tokenised queries and passages.

    Shapes:
        ``unpooled``: [distinct queries], how many of a query's first tokens its vector leaves out.
        ``query_of``, ``positive_of``: [n], row to index in ``queries`` and ``passages``.
        ``negatives_of``: n arrays of passage indices.
        ``targets_of``: n float32 arrays, a teacher's scores of the positive and of each negative; empty without one.
        ``answers``: per query, every passage that is some row's positive for it.
    """

    queries: list[TokenIds]
    passages: list[TokenIds]
    unpooled: np.ndarray
    query_of: np.ndarray
    positive_of: np.ndarray
    negatives_of: list[np.ndarray]
    targets_of: list[np.ndarray]
    answers: list[set[int]]

    def __len__(self) -> int:
        return len(self.query_of)


def tokenize_set(
    rows: TrainingSet | DevSet,
    tokens: TextTokens,
    *,
    max_query_length: int,
    max_passage_length: int,
) -> TokenSet:
    """Number and tokenise the distinct texts of ``rows``; queries and passages are cut at their maximum lengths.

    Raises:
        InputError: the columns differ in length, an id has no passage, or a teacher scored more or fewer passages than
            a row has.
    """
    passages = rows.passages or {}
    negative_ids = getattr(rows, "negative_ids", ()) or [()] * len(rows.queries)
    teacher_scores = getattr(rows, "teacher_scores", ()) or [()] * len(rows.queries)
    if not len(rows.queries) == len(rows.positive_ids) == len(negative_ids) == len(teacher_scores):
        raise InputError(
            f"{len(rows.queries)} queries, {len(rows.positive_ids)} positives, {len(negative_ids)} lists of negatives "
            f"and {len(teacher_scores)} of a teacher's scores: give one of each per row"
        )
    targets_of = [_targets(*row) for row in zip(rows.queries, negative_ids, teacher_scores, strict=True)]
    query_number: dict[str, int] = {}
    text_number: dict[str, int] = {}
    query_of = np.array([_number(query_number, query) for query in rows.queries], dtype=np.int64)

    def number_of(passage_id: str) -> int:
        if passage_id not in passages:
            raise InputError(f"passage {passage_id!r} is named by a row and has no text: add it to the passages")
        return _number(text_number, passages[passage_id])

    positive_of = np.array([number_of(passage_id) for passage_id in rows.positive_ids], dtype=np.int64)
    negatives_of = [np.array([number_of(passage_id) for passage_id in ids], dtype=np.int64) for ids in negative_ids]
    if isinstance(rows, DevSet):
        for text in passages.values():
            _number(text_number, text)
    answers: list[set[int]] = [set() for _ in query_number]
    for query, positive in zip(query_of.tolist(), positive_of.tolist(), strict=True):
        answers[query].add(positive)
    instruction_of = dict(zip(rows.queries, rows.unpooled, strict=True)) if rows.unpooled else {}
    return TokenSet(
        queries=tokens.ids(list(query_number), max_query_length),
        passages=tokens.ids(list(text_number), max_passage_length),
        unpooled=tokens.prefix_lengths([instruction_of.get(query, "") for query in query_number]),
        query_of=query_of,
        positive_of=positive_of,
        negatives_of=negatives_of,
        targets_of=targets_of,
        answers=answers,
    )


def _number(numbers: dict[str, int], text: str) -> int:
    return numbers.setdefault(text, len(numbers))


def _targets(query: str, negative_ids: Sequence[str], scores: Sequence[float]) -> np.ndarray:
    if len(scores) not in (0, 1 + len(negative_ids)):
        raise InputError(
            f"{len(scores)} teacher's scores for {query!r} with {len(negative_ids)} negatives: give one for the "
            "positive and one for each negative, or none"
        )
    return np.array(scores, dtype=np.float32)
