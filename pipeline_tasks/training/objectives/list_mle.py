"""ListMLE: the order in which a teacher ranks a list is made the likeliest of all orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pipeline_tasks.training.objective import Objective, Table

if TYPE_CHECKING:
    from torch import Tensor


class ListMLE(Objective):
    """-log P(the teacher's order), where each next text is drawn by softmax(scores) of those that are left.

    -sum over places i of (score_i - log of the sum over j >= i of exp(score_j)), over what the teacher scored.

    Relations:
        Of two candidates it is ``info_nce`` with the teacher's first as the positive; of more, the sum of ``info_nce``
        over the list without its first, without its first two, and so on. It reads the order alone: a teacher's scores
        may be in any unit. Equal scores are ordered by column.

    Source:
        Xia et al. 2008, "Listwise approach to learning to rank: theory and algorithm"; BMEmbed, Table 7.
    """

    reads_targets: ClassVar[bool] = True

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The loss of every row, [b] of [b, p]."""
        taught = table.taught
        longest = int(taught.sum(dim=1).max())
        order = table.targets.masked_fill(~taught, float("-inf")).argsort(dim=1, descending=True, stable=True)
        order = order[:, :longest]
        ranked, counts = scores.gather(1, order), taught.gather(1, order)
        # [b, i, j]: what is still there when place i is drawn; only as wide as the longest list, not as the table.
        left = (counts[:, :, None] & counts[:, None, :]).triu()
        still = ranked[:, None, :].masked_fill(~left, float("-inf")).logsumexp(dim=2)
        return (still - ranked).masked_fill(~counts, 0.0).sum(dim=1)
