"""InfoNCE: a query finds its positive among its candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_tasks.training.objective import Objective, Table

if TYPE_CHECKING:
    from torch import Tensor


class InfoNCE(Objective):
    """-log softmax(scores) at the positive.

    Relations:
        With ``in_batch`` and no negatives it is Eq. 2, the cross-entropy of a square of pairs; with a row's own
        negatives alone it is Eq. 4. A row whose only candidate is its positive costs 0. ``list_net`` is the same where
        the teacher is sure of the positive.

    Source:
        DMRetriever Eq. 1, 2 and 4. Departure: Eq. 2 counts every passage of the batch as a negative; here duplicates of
        the positive and other known answers of the query are left out, as they are not wrong answers.
    """

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The loss of every row, [b] of [b, p]."""
        at_positive = scores.gather(1, table.positives[:, None])[:, 0]
        return scores.logsumexp(dim=1) - at_positive
