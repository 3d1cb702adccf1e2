"""Targets of a sampler: sets of judged queries on which it looks at what the sources do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from pipeline_tasks.encoders.trunk import Encoder
from pipeline_tasks.training.candidates import make_group
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.gradients import Gradients, table_of
from pipeline_tasks.training.objectives.info_nce import InfoNCE
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.peers import Peers
from pipeline_tasks.training.sampler import Metric
from pipeline_tasks.training.schedule import Batch
from pipeline_tasks.training.validation import embed, mean_ndcg, ranks_of_positives


@dataclass(frozen=True)
class Drawn:
    """Some rows, each query of which is to find its positive among the passages of all of them.

    Attributes:
        encoder: its weights as they are.
        data: where the rows are from.
        rows: their numbers.
        params: hyperparameters; negatives are in-batch whatever they say.
    """

    encoder: Encoder
    data: Rows
    rows: np.ndarray
    params: TrainParams

    @property
    def n_tokens(self) -> int:
        """Of queries, positives and negatives."""
        return int(self.data.tokens_of[self.rows].sum())

    def score(self, metric: Metric) -> float:
        """InfoNCE negated, or NDCG@10; without dropout."""
        group = make_group(self.rows, self.data, in_batch=True)
        asked = partial(embed, self.encoder, micro_batch_tokens=self.params.micro_batch_tokens, autocast=self._autocast)
        queries = asked(self.data.queries, unpooled=self.data.unpooled, which=group.queries)
        passages = asked(self.data.passages, which=group.passages)
        if metric == "ndcg":
            _, query_of = np.unique(group.queries, return_inverse=True)
            grades = np.ones(len(self.rows))
            return mean_ndcg(ranks_of_positives(queries, passages, group.positives), grades, query_of)
        table = table_of(group, self.params.temperature, "cpu")
        return -InfoNCE().loss(torch.from_numpy(queries), torch.from_numpy(passages), table).item()

    def add_gradients(self, key: int, peers: Peers) -> float:
        """Add the gradients of that loss, without dropout, and return it."""
        self.encoder.model.eval()
        together = Gradients(self.encoder, self.data, self.params.model_copy(update={"in_batch": True}), peers)
        return together.add(Batch(self.rows, InfoNCE()), key)

    @property
    def _autocast(self) -> bool:
        return self.params.precision == "bf16"
