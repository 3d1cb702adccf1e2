"""Gradients do not depend on how a batch is cut, dropout included."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.compute.reproducible import reproducible
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import Batch


def gradients(tiny_bert, rows, *, dropout: bool, **settings) -> tuple[float, dict[str, torch.Tensor]]:
    encoder = load(tiny_bert)
    encoder.model.train(dropout)
    with TemporaryDirectory() as folder:
        data = tokenized(rows, encoder.tokens, Path(folder), max_query_length=16, max_passage_length=32)
    params = TrainParams(temperature=0.1, max_query_length=16, max_passage_length=32, **settings)
    with reproducible(torch.get_num_threads()):
        loss = Gradients(encoder, data, params).add(Batch(np.arange(len(data)), params.objective), 5)
    return loss, {name: w.grad for name, w in encoder.model.named_parameters() if w.grad is not None}


@pytest.mark.parametrize("graph_tokens", [64, 256])
@pytest.mark.parametrize("dropout", [False, True])
def test_cached_gradients_equal_plain_ones(tiny_bert, rows, dropout: bool, graph_tokens: int) -> None:
    common = {"in_batch": True, "micro_batch_tokens": 64, "dropout": dropout}
    plain_loss, plain = gradients(tiny_bert, rows, graph_tokens=10**6, **common)
    cached_loss, cached = gradients(tiny_bert, rows, graph_tokens=graph_tokens, **common)
    assert cached_loss == pytest.approx(plain_loss, rel=1e-6)
    assert plain.keys() == cached.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(cached[name], gradient, rtol=0, atol=1e-6)


def test_groups_of_rows_add_up_to_the_batch(tiny_bert, rows) -> None:
    common = {"in_batch": False, "dropout": False}
    whole_loss, whole = gradients(tiny_bert, rows, graph_tokens=10**6, **common)
    split_loss, split = gradients(tiny_bert, rows, graph_tokens=120, **common)
    assert split_loss == pytest.approx(whole_loss, rel=1e-5)
    for name, gradient in whole.items():
        torch.testing.assert_close(split[name], gradient, rtol=0, atol=1e-6)


def test_dropout_is_on_and_seeded(tiny_bert, rows) -> None:
    common = {"in_batch": True, "dropout": True}
    first, again = gradients(tiny_bert, rows, **common), gradients(tiny_bert, rows, **common)
    other = gradients(tiny_bert, rows, seed=1, **common)
    assert first[0] == again[0]
    assert all(torch.equal(gradient, again[1][name]) for name, gradient in first[1].items())
    assert first[0] != other[0]


@pytest.mark.parametrize("objective", ["list_net", "list_mle"])
def test_lists_of_unlike_lengths_cut_into_pieces_equal_one_padded_batch(tiny_bert, lists, objective: str) -> None:
    common = {"objective": objective, "dropout": False}
    padded_loss, padded = gradients(tiny_bert, lists, graph_tokens=10**6, micro_batch_tokens=10**6, **common)
    packed_loss, packed = gradients(tiny_bert, lists, graph_tokens=120, micro_batch_tokens=40, **common)
    assert packed_loss == pytest.approx(padded_loss, rel=1e-5)
    for name, gradient in padded.items():
        torch.testing.assert_close(packed[name], gradient, rtol=1e-4, atol=1e-6)
