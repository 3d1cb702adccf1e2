"""The gradients of one optimiser step, whatever the batch's size, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.compute.arithmetic import arithmetic
from pipeline_tasks.training.compute.batches import micro_batches, piece_at, row_groups
from pipeline_tasks.training.compute.candidates import Group, make_group
from pipeline_tasks.training.compute.gradient_cache import backward
from pipeline_tasks.training.compute.reproducible import seed_dropout
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.parallel.divided import divides, in_step
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import Batch


@dataclass(frozen=True)
class Gradients:
    """Adds the gradients of batches to the weights of an encoder.

    Attributes:
        encoder: its weights.
        data: rows that batches are of.
        params: hyperparameters.
        peers: this process among those that share the work.
    """

    encoder: TrainableEncoder
    data: Rows
    params: TrainParams
    peers: Peers = ALONE

    def add(self, batch: Batch, step: int) -> float:
        """Add the gradients of the batch's mean loss, those of all processes together; that loss."""
        total = self.add_own(batch, step)
        self.add_up()
        return total

    def add_up(self) -> None:
        """Have what every process added of its own added up in all of them: once, before the optimiser's step.

        Gradients of divided weights are added up as they come.
        """
        if not divides(self.params, self.peers):
            self.peers.add_gradients(self.encoder.model.parameters())

    def add_own(self, batch: Batch, step: int, share: float = 1.0) -> float:
        """Add this process's part of the gradients of ``share`` of the batch's mean loss; that share, of all processes.

        It is done in the memory of ``graph_tokens``.

        Rows that do not see each other's passages are done in groups one after the other, each by one process; rows
        that do are one group, through the gradient cache where it is too large or has several processes. The dropout of
        a piece depends on its place alone, so that the number of processes changes no more than rounding.
        """
        rows, objective = batch
        params, peers = self.params, self.peers
        whole_batch = params.in_batch or objective.needs_batch
        if whole_batch:
            return self._add_group(_Cut(np.arange(len(rows)), 0, share), batch, step, peers)
        groups = row_groups(self.data.tokens_of[rows], params.graph_tokens)
        shares = (share * len(group) / len(rows) for group in groups)
        cuts = [_Cut(group, number, own) for number, (group, own) in enumerate(zip(groups, shares, strict=True))]
        cuts += [cuts[-1]._replace(share=0.0)] * (-len(cuts) % in_step(params, peers).count)
        mine = (cuts[number] for number in peers.share(len(cuts)))
        return peers.add(sum(self._add_group(cut, batch, step, ALONE) for cut in mine))

    def _add_group(self, cut: _Cut, batch: Batch, step: int, peers: Peers) -> float:
        encoder, data, params = self.encoder, self.data, self.params
        group = make_group(batch.rows[cut.members], data, params.in_batch, batch.objective.needs_contrasts)
        asked = np.concatenate([group.queries, group.contrasts])
        sequences = [data.queries[i] for i in asked] + [data.passages[i] for i in group.passages]
        unpooled = np.concatenate([data.unpooled[asked], np.zeros(len(group.passages), np.int64)])
        lengths = np.concatenate([data.queries.lengths[asked], data.passages.lengths[group.passages]])
        pieces = micro_batches(lengths, params.micro_batch_tokens)
        back = torch.from_numpy(np.argsort(np.concatenate(pieces))).to(encoder.device)
        table = table_of(group, params.temperature, encoder.device)

        def encode(number: int | None) -> torch.Tensor:
            piece = piece_at(pieces, number)
            seed_dropout(params.seed, step, cut.number, len(pieces) if number is None else number)
            features = encoder.features([sequences[i] for i in piece], unpooled[piece])
            with arithmetic(encoder.model, half=params.bf16):
                return encoder.encode(features)

        def loss_of(embeddings: torch.Tensor) -> torch.Tensor:
            queries, passages = embeddings[back].split([len(asked), len(group.passages)])
            return cut.share * batch.objective.loss(queries, passages, table)

        tokens = np.cumsum([lengths[piece].sum() for piece in reversed(pieces)])
        held = int(np.searchsorted(tokens, params.graph_tokens, side="right"))
        like = torch.empty((0, encoder.width), device=encoder.device)
        sizes, pace = list(map(len, pieces)), in_step(params, self.peers)
        return backward(encode, sizes, loss_of, like, held=held, peers=peers, in_step=pace)


def table_of(group: Group, temperature: float, device: torch.device | str) -> Table:
    """What the queries of a group are scored against, on a device."""
    names = ("positives", "candidates", "answers", "targets", "other_instructions", "other_queries")
    arrays = {name: torch.from_numpy(getattr(group, name)).to(device) for name in names}
    return Table(**arrays, temperature=temperature)


class _Cut(NamedTuple):
    """Rows of a batch that are done together: their places, which group they are, how much their mean loss counts."""

    members: np.ndarray
    number: int
    share: float
