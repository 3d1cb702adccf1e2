"""What an objective is: from the embeddings of a group of rows to one number, which training makes small.

A group is scored over a table with a row per query and a column per distinct passage. The stage decides what every
objective has in common, the temperature and whether the other passages of a batch are candidates; an objective decides
what is made of the scores. One that needs more than scores, as a wrapper around another does, starts from embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pipeline_tasks.training.named import Named

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Table:
    """What the queries of a group are scored against.

    Shapes:
        positives: [b] int64, the column of each row's positive; candidates: [b, p] bool, True where a passage counts,
        always at the positive; answers: [b, p] bool, True where a passage answers the query in some row, the positive
        included; targets: [b, p] float32, a teacher's scores in its own unit, NaN where there is none.
        Over the rows' own queries and, behind them, c further ones that rows are told apart from:
        other_instructions: [b, b + c] bool, True at the row's query with another instruction; other_queries: [b, b + c]
        bool, True at another query, with whatever instruction. None where there are none but those of other rows.
    """

    positives: Tensor
    candidates: Tensor
    answers: Tensor
    targets: Tensor
    temperature: float
    other_instructions: Tensor | None = None
    other_queries: Tensor | None = None

    def scores(self, queries: Tensor, passages: Tensor) -> Tensor:
        """cos(q, p) / temperature, and minus infinity where a passage is no candidate.

        Shapes:
            queries: [b, d] and passages: [p, d], L2-normalised; returns [b, p].
        """
        return (queries @ passages.T / self.temperature).masked_fill(~self.candidates, float("-inf"))

    def contrast_scores(self, queries: Tensor, passages: Tensor, others: Tensor | None) -> Tensor:
        """cos(q, p) / temperature of each row's positive, and minus infinity where a query is no contrast to the row's.

        Shapes:
            queries: [b + c, d], passages: [p, d], L2-normalised; others: [b, b + c] bool or None; returns [b, b + c].
        """
        import torch

        n_rows = len(self.positives)
        own = torch.eye(n_rows, len(queries), dtype=torch.bool, device=queries.device)
        counted = own if others is None else own | others
        scores = passages[self.positives] @ queries.T / self.temperature
        return scores.masked_fill(~counted, float("-inf"))

    @property
    def taught(self) -> Tensor:
        """[b, p] bool: the candidates that a teacher scored."""
        return self.candidates & ~self.targets.isnan()

    def with_columns(self, candidates: Tensor) -> Table:
        """This table and further columns [b, n], of texts that answer no query and that no teacher scored."""
        from torch import cat

        columns = (
            (self.candidates, candidates),
            (self.answers, candidates.new_zeros(candidates.shape)),
            (self.targets, self.targets.new_full(candidates.shape, float("nan"))),
        )
        wider = [cat(pair, dim=1) for pair in columns]
        return replace(self, candidates=wider[0], answers=wider[1], targets=wider[2])


class Objective(Named):
    """Base of all objectives: its fields are its parameters.

    A subclass defines :meth:`of_scores`, or, where scores are not enough, :meth:`loss`. Unless ``mixes_rows``, a row's
    term must not change with the other rows: those that do not see each other's passages are trained on in groups, as
    memory allows.
    """

    mixes_rows: ClassVar[bool] = False
    """A row's loss depends on the other rows of the batch, even where its negatives are its own."""
    reads_targets: ClassVar[bool] = False
    """It learns from a teacher's scores; a row without any costs nothing."""
    reads_contrasts: ClassVar[bool] = False
    """It tells a row's query from others that the row brings; their vectors come behind those of the rows."""

    def of_scores(self, scores: Tensor, table: Table) -> Tensor:
        """The loss of every row.

        Shapes:
            scores: [b, p] as :meth:`Table.scores` gives them; returns [b].
        """
        raise NotImplementedError(f"{self.name} defines neither of_scores nor loss")

    def loss(self, queries: Tensor, passages: Tensor, table: Table) -> Tensor:
        """The mean loss of the rows.

        Shapes:
            queries: [b, d], or [b + c, d] where it reads contrasts, and passages: [p, d], L2-normalised; returns a
            scalar.
        """
        return self.of_scores(table.scores(queries, passages), table).mean()

    @property
    def needs_batch(self) -> bool:
        """Whether all rows of a batch must be in one group."""
        return self.mixes_rows or any(inner.needs_batch for inner in self._inner())

    @property
    def needs_targets(self) -> bool:
        """Whether rows must come with a teacher's scores."""
        return self.reads_targets or any(inner.needs_targets for inner in self._inner())

    @property
    def needs_contrasts(self) -> bool:
        """Whether the queries that rows bring as contrasts are encoded."""
        return self.reads_contrasts or any(inner.needs_contrasts for inner in self._inner())

    @property
    def parts(self) -> list[Objective]:
        """It and all that it wraps."""
        return [self, *(part for inner in self._inner() for part in inner.parts)]

    def _inner(self) -> list[Objective]:
        return [value for _, value in self if isinstance(value, Objective)]
