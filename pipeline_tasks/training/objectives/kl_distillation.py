"""Distillation: the student spreads its belief over a row's candidates as a teacher does."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline_tasks.training.objective import Objective, Table
from pipeline_tasks.training.objectives import AnyObjective

if TYPE_CHECKING:
    from torch import Tensor


class KLDistillation(Objective):
    """L = hard + weight * KL(softmax(teacher / teacher_temperature) || softmax(scores)), over what the teacher scored.

    Relations:
        With ``hard`` null it is pure distillation, whose gradient is that of ``list_net`` at the same temperature: the
        losses differ by the teacher's entropy. With ``weight`` 0 it is ``hard``. 0 where student and teacher agree.

    Source:
        DMRetriever 5.3 and appendix L: the contrastive loss of Eq. 4 on the labels, lambda = 1. The paper does not give
        the teacher's temperature; here it is the student's unless set.
    """

    reads_targets: ClassVar[bool] = True

    hard: AnyObjective | None = Field("info_nce", validate_default=True, description="loss on the labels; null: none")
    weight: float = Field(1.0, ge=0, description="lambda: weight of the KL divergence")
    teacher_temperature: float | None = Field(
        None, gt=0, description="softmax temperature of the teacher; empty: the student's"
    )

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The divergence of every row, [b] of [b, p]."""
        taught = table.taught
        teacher = table.targets / (self.teacher_temperature or table.temperature)
        beliefs = [side.masked_fill(~taught, float("-inf")).log_softmax(dim=1) for side in (teacher, scores)]
        # Outside the teacher's candidates both logarithms are infinite, and their difference is not a number.
        of_teacher, of_student = (belief.masked_fill(~taught, 0.0) for belief in beliefs)
        return (of_teacher.exp() * (of_teacher - of_student)).masked_fill(~taught, 0.0).sum(dim=1)

    def loss(self, queries: Tensor, passages: Tensor, table: Table) -> Tensor:
        """The mean of the rows' divergences, weighted, and the loss on the labels; [b, d] and [p, d] to a scalar."""
        divergence = self.weight * super().loss(queries, passages, table)
        return divergence if self.hard is None else self.hard.loss(queries, passages, table) + divergence
