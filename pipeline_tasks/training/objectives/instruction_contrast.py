"""InF-Embed: a matching instruction, query and passage are told from those in which one of these was exchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from pipeline_tasks.training.objective import Objective, Table

if TYPE_CHECKING:
    from torch import Tensor

Term = Literal["P", "I", "IQ"]


def _passages(queries: Tensor, passages: Tensor, table: Table) -> Tensor:
    """P(P | I, Q): other passages for the row's instruction and query."""
    return table.scores(queries[: len(table.positives)], passages)


def _instructions(queries: Tensor, passages: Tensor, table: Table) -> Tensor:
    """P(I | P, Q): other instructions before the row's query, for its passage."""
    return table.contrast_scores(queries, passages, table.other_instructions)


def _instructed_queries(queries: Tensor, passages: Tensor, table: Table) -> Tensor:
    """P(IQ | P): other queries with their instructions, for the row's passage."""
    return table.contrast_scores(queries, passages, table.other_queries)


TERMS: dict[Term, Callable[[Tensor, Tensor, Table], Tensor]] = {
    "P": _passages,
    "I": _instructions,
    "IQ": _instructed_queries,
}
"""What is contrasted -> its scores [b, n], the matching one among them; given is what the name does not say."""


class InstructionContrast(Objective):
    """The matching (instruction, query, passage) against those that differ from it in what the terms name.

    ``uni`` is the sum over terms of -log softmax of each, ``multi`` one -log softmax over the negatives of all of them,
    where the matching one counts once for each term that has any, as in the paper.

    ========= ========= =======
    terms     uni       multi
    ========= ========= =======
    P         Eq. 8     Eq. 15
    I         Eq. 9     Eq. 16
    IQ        Eq. 10    Eq. 17
    P, I      Eq. 11    Eq. 18
    P, IQ     Eq. 12    Eq. 19
    I, IQ     Eq. 13    Eq. 20
    P, I, IQ  Eq. 6, 14 Eq. 7, 21
    ========= ========= =======

    Each term exchanges one thing and keeps the others (marginal negatives), so a row has as many scores as there are
    texts in the batch, times the terms: O(|B| |y|) where all combinations would be |B| to the power of |y|.

    Relations:
        P alone is ``info_nce``. A term in which a row has no negatives costs that row nothing, in either form. P with
        ``in_batch`` off has the row's own negatives.

    Source:
        InF-IR 5.2 and appendix C. Departures: a passage that answers another row's query is no negative for it, in P as
        in IQ; I has the instructions that a row brings (each is a text of its own, which has to be encoded) and not
        those of all other rows; cosines are divided by a temperature.
    """

    mixes_rows: ClassVar[bool] = True
    reads_contrasts: ClassVar[bool] = True

    form: Literal["uni", "multi"] = Field(
        "multi", description="uni: a softmax for each term; multi: one over all of them"
    )
    terms: tuple[Term, ...] = Field(("P", "I"), min_length=1, description="what is exchanged in a negative: P, I, IQ")

    def loss(self, queries: Tensor, passages: Tensor, table: Table) -> Tensor:
        """The mean over rows; [b + c, d], the rows' own first, and [p, d] to a scalar."""
        from torch import cat, stack

        scores = [TERMS[name](queries, passages, table) for name in dict.fromkeys(self.terms)]
        matching = (queries[: len(table.positives)] * passages[table.positives]).sum(dim=1) / table.temperature
        if self.form == "uni":
            return sum((one.logsumexp(dim=1) - matching for one in scores), start=matching.new_zeros(())).mean()
        tells = [(one > float("-inf")).sum(dim=1) > 1 for one in scores]  # else its one score is the matching one
        counted = [one.masked_fill(~own[:, None], float("-inf")) for one, own in zip(scores, tells, strict=True)]
        nothing = ~stack(tells).any(dim=0)
        counted.append(matching.masked_fill(~nothing, float("-inf"))[:, None])
        return (cat(counted, dim=1).logsumexp(dim=1) - matching).mean()
