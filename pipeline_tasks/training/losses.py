"""InfoNCE over a table of candidates: in-batch negatives and mined hard negatives are two masks of one loss.

Inputs of the two uses:

| use | row | candidates of a query |
|---|---|---|
| pre-training (Eq. 2) | query, positive | its positive, the other positives of the batch |
| fine-tuning (Eq. 4) | query, positive, k negatives (k may differ by row) | its positive, its own negatives |
| both | query, positive, k negatives | its positive, every other passage of the batch |

A passage that answers the query in any training row is a candidate only as the row's own positive.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pipeline_tasks.training.examples import TokenSet


@dataclass(frozen=True)
class Group:
    """Rows that are scored together, over the distinct passages they name.

    Shapes:
        queries: [b] query indices; passages: [p] passage indices; positives: [b] columns of the table;
        candidates: [b, p] True where a passage counts in the row's denominator.
    """

    queries: np.ndarray
    passages: np.ndarray
    positives: np.ndarray
    candidates: np.ndarray


def make_group(rows: np.ndarray, data: TokenSet, in_batch: bool) -> Group:
    """Lay out the candidates of ``rows``; known answers of a query are never its negatives."""
    positives = data.positive_of[rows]
    passages = np.unique(np.concatenate([positives, *(data.negatives_of[row] for row in rows)]))
    candidates = np.full((len(rows), len(passages)), in_batch)
    for i, row in enumerate(rows):
        if not in_batch:
            candidates[i, np.searchsorted(passages, data.negatives_of[row])] = True
        candidates[i, np.isin(passages, list(data.answers[data.query_of[row]]))] = False
    columns = np.searchsorted(passages, positives)
    candidates[np.arange(len(rows)), columns] = True
    return Group(data.query_of[rows], passages, columns, candidates)


def info_nce(queries: Tensor, passages: Tensor, positives: Tensor, candidates: Tensor, temperature: float) -> Tensor:
    """Mean over queries of -log softmax(cos(q, p) / temperature) at the positive, over the row's candidates.

    Shapes:
        queries: [b, d] and passages: [p, d], L2-normalised; positives: [b] int64; candidates: [b, p] bool, True at
        the positive; returns a scalar. A row whose only candidate is its positive contributes 0.

    Source:
        DMRetriever Eq. 1, 2 and 4. Departure: Eq. 2 counts every passage of the batch as a negative; here
        duplicates of the positive and other known answers of the query are left out, as they are not wrong
        answers.
    """
    scores = (queries @ passages.T / temperature).masked_fill(~candidates, float("-inf"))
    at_positive = scores.gather(1, positives[:, None])[:, 0]
    return (scores.logsumexp(dim=1) - at_positive).mean()
