"""ListNet: a teacher's scores of a list as the target of the student's, in the top-one distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline_tasks.training.objective import Objective, Table

if TYPE_CHECKING:
    from torch import Tensor


class ListNet(Objective):
    """-sum over candidates of softmax(targets / alpha) * log softmax(scores), over what the teacher scored.

    Relations:
        The cross-entropy of student and teacher: pure ``kl_distillation`` plus the teacher's entropy, so the gradients
        are equal. As alpha goes to 0 it is InfoNCE with the teacher's first as the positive; as alpha grows the target
        becomes uniform.

    Source:
        Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach"; BMEmbed 3.3, whose student has
        temperature 1 and whose alpha of 1 to 10 is for BM25's scores with the factor k1 + 1 = 2.2. Ours, as Lucene's,
        are without it, so that these are 0.45 to 4.5 here.
    """

    reads_targets: ClassVar[bool] = True

    alpha: float = Field(1.0, gt=0, description="softmax temperature of the teacher's scores")

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The loss of every row, [b] of [b, p]."""
        taught = table.taught
        target = (table.targets / self.alpha).masked_fill(~taught, float("-inf")).softmax(dim=1)
        belief = scores.masked_fill(~taught, float("-inf")).log_softmax(dim=1)
        return -(target * belief).masked_fill(~taught, 0.0).sum(dim=1)
