"""Which passages a row is scored against: in-batch negatives and mined hard negatives are two masks of one table.

| use | row | candidates of a query |
|---|---|---|
| pre-training (Eq. 2) | query, positive | its positive, the other positives of the batch |
| fine-tuning (Eq. 4) | query, positive, k negatives (k may differ by row) | its positive, its own negatives |
| both | query, positive, k negatives | its positive, every other passage of the batch |

A passage that answers the query in any training row is a candidate only as the row's own positive.
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
        targets: [b, p] float32, a teacher's score of query and passage, NaN where there is none.
    """

    queries: np.ndarray
    passages: np.ndarray
    positives: np.ndarray
    candidates: np.ndarray
    answers: np.ndarray
    targets: np.ndarray


def make_group(rows: np.ndarray, data: Rows, in_batch: bool) -> Group:
    """Lay out the candidates of ``rows``; known answers of a query are never its negatives."""
    positives = data.positive_of[rows]
    passages = np.unique(np.concatenate([positives, *(data.negatives_of[row] for row in rows)]))
    candidates = np.full((len(rows), len(passages)), in_batch)
    answers = np.empty_like(candidates)
    targets = np.full(candidates.shape, np.nan, np.float32)
    for i, row in enumerate(rows):
        own = np.searchsorted(passages, [data.positive_of[row], *data.negatives_of[row]])
        candidates[i, own] = True
        answers[i] = np.isin(passages, data.answers[data.query_of[row]])
        if len(data.targets_of[row]):
            targets[i, own] = data.targets_of[row]
    columns = np.searchsorted(passages, positives)
    candidates &= ~answers
    candidates[np.arange(len(rows)), columns] = True
    return Group(data.query_of[rows], passages, columns, candidates, answers, targets)
