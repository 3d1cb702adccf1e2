"""Which passages a row is scored against: in-batch negatives and mined hard negatives are two masks of one table.

| use | row | candidates of a query |
|---|---|---|
| pre-training (Eq. 2) | query, positive | its positive, the other positives of the batch |
| fine-tuning (Eq. 4) | query, positive, k negatives (k may differ by row) | its positive, its own negatives |
| both | query, positive, k negatives | its positive, every other passage of the batch |

A passage that answers the query in any training row is a candidate only as the row's own positive. Of the other
passages of its own tuple a row is scored against those that are its negatives, and no others.
"""

from dataclasses import dataclass

import numpy as np

from pipeline_tasks.training.data.rows import Rows


@dataclass(frozen=True)
class Group:
    """Rows that are scored together, over the distinct passages they name.

    Shapes:
        queries: [b] query indices; passages: [p] passage indices; positives: [b] columns of the table;
        candidates: [b, p] True where a passage counts in the row's denominator;
        answers: [b, p] True where a passage is a known answer of the query, the row's positive included;
        targets: [b, p] float32, a teacher's score of query and passage, NaN where there is none;
        contrasts: [c] query indices, none of them of a row; over the rows' queries and these: other_instructions,
        other_queries: [b, b + c], see :class:`~pipeline_tasks.training.objective.Table`.
    """

    queries: np.ndarray
    passages: np.ndarray
    positives: np.ndarray
    candidates: np.ndarray
    answers: np.ndarray
    targets: np.ndarray
    contrasts: np.ndarray
    other_instructions: np.ndarray
    other_queries: np.ndarray


def make_group(rows: np.ndarray, data: Rows, in_batch: bool, contrasted: bool = False) -> Group:
    """Lay out the candidates of ``rows``, and where ``contrasted`` the queries that theirs are told apart from.

    Known answers of a query are never its negatives, nor is a query a contrast to a row whose positive answers it.
    """
    positives = data.positive_of[rows]
    passages = np.unique(np.concatenate([positives, *(data.negatives_of[row] for row in rows)]))
    candidates, tuples = np.full((len(rows), len(passages)), in_batch), data.tuple_of[rows]
    meet = len(np.unique(tuples)) < len(rows)
    answers = np.empty_like(candidates)
    targets = np.full(candidates.shape, np.nan, np.float32)
    for i, row in enumerate(rows):
        own = np.searchsorted(passages, [data.positive_of[row], *data.negatives_of[row]])
        candidates[i, own] = True
        answers[i] = np.isin(passages, data.answers[data.query_of[row]])
        if len(data.targets_of[row]):
            targets[i, own] = data.targets_of[row]
        if meet:
            kin = rows[tuples == tuples[i]]
            named = np.concatenate([data.positive_of[kin], *(data.negatives_of[other] for other in kin)])
            candidates[i, np.setdiff1d(np.searchsorted(passages, named), own)] = False
    columns = np.searchsorted(passages, positives)
    candidates &= ~answers
    candidates[np.arange(len(rows)), columns] = True
    contrasts = _contrasts(rows, data, answers[:, columns].T) if contrasted else _no_contrasts(len(rows))
    return Group(data.query_of[rows], passages, columns, candidates, answers, targets, *contrasts)


def _no_contrasts(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(0, np.int64), np.zeros((n_rows, n_rows), bool), np.zeros((n_rows, n_rows), bool)


def _contrasts(rows: np.ndarray, data: Rows, answered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contrasts of ``rows`` as a group has them; ``answered`` [b, b]: the row's positive answers the other's query."""
    queries = data.query_of[rows]
    further = np.setdiff1d(np.concatenate([data.contrasts_of[row] for row in rows]), queries)
    place = {query: at for at, query in reversed([*enumerate([*queries.tolist(), *further.tolist()])])}
    instructions = np.zeros((len(rows), len(queries) + len(further)), bool)
    others = np.concatenate([~answered, np.zeros((len(rows), len(further)), bool)], axis=1)
    for i, row in enumerate(rows):
        for at, query in enumerate(data.contrasts_of[row].tolist()):
            wrong = data.positive_of[row] not in data.answers[query]
            others[i, place[query]] = wrong
            instructions[i, place[query]] = wrong and at < data.n_instructions[row]
    return further, instructions, others
