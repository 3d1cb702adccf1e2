"""The gradients of one optimiser step, whatever the batch's size, in bounded memory."""

import numpy as np
import torch

from pipeline_tasks.encoders.trunk import Encoder
from pipeline_tasks.training.batches import micro_batches, row_groups
from pipeline_tasks.training.candidates import Group, make_group
from pipeline_tasks.training.examples import TokenSet
from pipeline_tasks.training.gradient_cache import backward
from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.reproducible import seed_dropout


def accumulate(
    encoder: Encoder, data: TokenSet, rows: np.ndarray, step: int, params: TrainParams, autocast: bool
) -> float:
    """Add the gradients of the batch's mean loss to the weights, in the memory of ``graph_tokens``.

    Rows that do not see each other's passages are done in groups one after the other; rows that do are one
    group, through the gradient cache where it is too large.
    """
    tokens_of = np.array([_row_tokens(data, row) for row in rows])
    groups = [np.arange(len(rows))] if params.whole_batch else row_groups(tokens_of, params.graph_tokens)
    total = 0.0
    for number, members in enumerate(groups):
        group = make_group(rows[members], data, params.in_batch)
        weight = len(members) / len(rows)
        total += _backward_group(encoder, data, group, weight, (params.seed, step, number), params, autocast)
    return total


def _backward_group(
    encoder: Encoder,
    data: TokenSet,
    group: Group,
    weight: float,
    key: tuple[int, int, int],
    params: TrainParams,
    autocast: bool,
) -> float:
    sequences = [data.queries[i] for i in group.queries] + [data.passages[i] for i in group.passages]
    unpooled = np.concatenate([data.unpooled[group.queries], np.zeros(len(group.passages), np.int64)])
    lengths = np.array([len(ids) for ids in sequences])
    pieces = micro_batches(lengths, params.micro_batch_tokens)
    back = torch.from_numpy(np.argsort(np.concatenate(pieces))).to(encoder.device)
    arrays = (group.positives, group.candidates, group.answers, group.targets)
    positives, candidates, answers, targets = (torch.from_numpy(array).to(encoder.device) for array in arrays)
    table = Table(positives, candidates, answers, targets, params.temperature)

    def encode(piece: int) -> torch.Tensor:
        seed_dropout(*key, piece)
        features = encoder.features([sequences[i] for i in pieces[piece]], unpooled[pieces[piece]])
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=autocast):
            return encoder.encode(features)

    def loss_of(embeddings: torch.Tensor) -> torch.Tensor:
        queries, passages = embeddings[back].split([len(group.queries), len(group.passages)])
        return weight * params.objective.loss(queries, passages, table)

    return backward(encode, len(pieces), loss_of, cached=int(lengths.sum()) > params.graph_tokens)


def _row_tokens(data: TokenSet, row: int) -> int:
    passages = [data.positive_of[row], *data.negatives_of[row]]
    return len(data.queries[data.query_of[row]]) + sum(len(data.passages[i]) for i in passages)
