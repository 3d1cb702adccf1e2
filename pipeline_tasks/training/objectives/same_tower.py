"""Same-tower negatives: the other queries of the batch are candidates too."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline_tasks.training.objective import Objective, Table
from pipeline_tasks.training.objectives import AnyObjective

if TYPE_CHECKING:
    from torch import Tensor


class SameTower(Objective):
    """Another objective over a wider table: a column for every query of the batch.

    A query is no negative of one that shares a known answer with it, nor of itself.

    Relations:
        Over ``info_nce`` with ``in_batch`` and one negative a row it is Gecko's Eq. 3, but for the negatives of other
        rows, which count here and not there. In a batch of one row it is the inner objective. What a teacher says of
        passages stays as it is.

    Source:
        Gecko 3.3, Eq. 3; Moiseev et al. 2023, "SamToNe". Departure: queries with a common answer among the
        passages that are scored are left out.
    """

    mixes_rows: ClassVar[bool] = True

    inner: AnyObjective = Field("info_nce", validate_default=True, description="loss over passages and queries")

    def loss(self, queries: Tensor, passages: Tensor, table: Table) -> Tensor:
        """The inner objective's; [b, d], or [b + c, d] with contrasts of the inner one, and [p, d] to a scalar."""
        from torch import cat

        answers = table.answers.to(queries.dtype)
        alike = answers @ answers.T > 0
        own = queries[: len(alike)]
        return self.inner.loss(queries, cat([passages, own]), table.with_columns(~alike))
