"""ListNet against the whole batch: a teacher's list is to be ranked as the teacher does, and before everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline_tasks.training.objective import Objective, Table

if TYPE_CHECKING:
    from torch import Tensor


class ListContrast(Objective):
    """-sum of softmax(targets / alpha) * log softmax(scores): targets over what the teacher scored, scores over all.

    With ``in_batch`` the passages of the other lists are candidates, too, and their target is 0: they are far down in
    the teacher's ranking, if they are in it.

    Relations:
        Where the teacher scored every candidate it is ``list_net``. As alpha goes to 0 it is ``info_nce`` with the
        teacher's first as the positive, and the rest of its list and of the batch as negatives.

    Source:
        ``list_net`` (BMEmbed 3.3), whose batch is one list: there a query is told apart from nothing but its own list.
    """

    reads_targets: ClassVar[bool] = True

    alpha: float = Field(1.0, gt=0, description="a teacher's scores are divided by it")

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The loss of every row, [b] of [b, p]."""
        taught = table.taught
        target = (
            (table.targets / self.alpha).masked_fill(~taught, float("-inf")).softmax(dim=1).masked_fill(~taught, 0.0)
        )
        return -(target * scores.log_softmax(dim=1)).masked_fill(~taught, 0.0).sum(dim=1)
