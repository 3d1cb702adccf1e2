"""Targets of a sampler: sets of judged queries on which it looks at what the sources do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.compute.candidates import Group, make_group
from pipeline_tasks.training.compute.gradients import Gradients, table_of
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives.info_nce import InfoNCE
from pipeline_tasks.training.parallel.peers import Peers
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampler import Metric
from pipeline_tasks.training.schedule import Batch
from pipeline_tasks.training.validation import embed, grades, mean_ndcg, ranks_of_positives


@dataclass(frozen=True)
class RowSample:
    """Some rows, each query of which is to find its positive among the passages of all of them.

    Attributes:
        encoder: its weights as they are.
        data: where the rows are from.
        rows: their numbers.
        params: hyperparameters; negatives are in-batch whatever they say.
    """

    encoder: TrainableEncoder
    data: Rows
    rows: np.ndarray
    params: TrainParams

    @property
    def n_tokens(self) -> int:
        """Of queries, positives and negatives."""
        return int(self.data.tokens_of[self.rows].sum())

    def score(self, metric: Metric) -> float:
        """Loss, negated, as it is or calibrated, or NDCG@10; without dropout."""
        group, params = make_group(self.rows, self.data, in_batch=True), self.params
        asked = partial(embed, self.encoder, micro_batch_tokens=params.micro_batch_tokens, autocast=params.bf16)
        queries = asked(self.data.queries, unpooled=self.data.unpooled, which=group.queries)
        passages = asked(self.data.passages, which=group.passages)
        if metric == "ndcg":
            return self._ndcg(group, queries, passages)
        table = table_of(group, params.temperature, "cpu")
        loss = least_loss if metric == "calibrated" else InfoNCE().loss
        return -float(loss(torch.from_numpy(queries), torch.from_numpy(passages), table))

    def add_gradients(self, key: int, share: float, peers: Peers) -> float:
        """Add this process's part of the gradients of ``share`` of that loss, without dropout; that share."""
        together = Gradients(self.encoder, self.data, self.params.model_copy(update={"in_batch": True}), peers)
        with without_dropout(self.encoder.model):
            return together.add_own(Batch(self.rows, InfoNCE()), key, share)

    def _ndcg(self, group: Group, queries: np.ndarray, passages: np.ndarray) -> float:
        """By all known answers of the queries that are among the passages, and their grades."""
        data = self.data
        asked, first = np.unique(group.queries, return_index=True)
        known = np.flatnonzero(np.isin(data.query_of, asked) & np.isin(data.positive_of, group.passages))
        of = np.searchsorted(asked, data.query_of[known]), np.searchsorted(group.passages, data.positive_of[known])
        (query_of, answers), once = np.unique(of, axis=1, return_index=True)
        ranks = ranks_of_positives(queries[first][query_of], passages, answers)
        return mean_ndcg(ranks, grades(data)[known[once]], query_of)


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """The block, in which ``model`` drops nothing out, and computes activations again where it is set to.

    transformers does the latter in blocks in training mode alone, so these are; what is in them is not, and what they
    drop out themselves is nothing.
    """
    model.eval()
    blocks = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    rates = [{name: rate for name, rate in vars(block).items() if "drop" in name} for block in blocks]
    try:
        for block, own in zip(blocks, rates, strict=True):
            block.training = True
            vars(block).update({name: 0.0 for name, rate in own.items() if isinstance(rate, float)})
        yield
    finally:
        for block, own in zip(blocks, rates, strict=True):
            block.training = False
            vars(block).update(own)


def least_loss(queries: Tensor, passages: Tensor, table: Table) -> float:
    """InfoNCE at the temperature at which it is least, between 0.001 and 1, whatever that of the table is.

    It is convex in 1 / temperature. An encoder that is too sure at the temperature of a training lowers the loss by
    bringing all texts closer together, which whatever is false teaches fastest; of that nothing is left here.

    Shapes:
        queries: [b, d]; passages: [p, d], L2-normalised.

    Source:
        Guo et al. 2017, "On Calibration of Modern Neural Networks", for the temperature.
    """
    cosines = replace(table, temperature=1.0).scores(queries, passages)
    found = minimize_scalar(
        lambda log: InfoNCE().of_scores(cosines * math.exp(log), table).mean().item(),
        bounds=(0, math.log(1000)),
        method="bounded",
    )
    return float(found.fun)
