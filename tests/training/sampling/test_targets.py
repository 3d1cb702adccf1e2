"""What a decision sees of a target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pipeline_tasks.encoders.trunk import TrainableEncoder, load
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives.info_nce import InfoNCE
from pipeline_tasks.training.parallel.peers import ALONE
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampling.targets import RowSample, least_loss, without_dropout
from pipeline_tasks.training.validation import embed, validate

LENGTHS = {"max_query_length": 16, "max_passage_length": 32}


@pytest.fixture
def vectors() -> tuple[Tensor, Tensor]:
    """Of 24 queries and their positives, near each other as by an encoder that knows something."""
    random = torch.Generator().manual_seed(3)
    passages = torch.randn(24, 16, generator=random, dtype=torch.float64)
    queries = passages + 1.5 * torch.randn(24, 16, generator=random, dtype=torch.float64)
    normalize = torch.nn.functional.normalize
    return normalize(queries), normalize(passages)


def table(temperature: float, n: int = 24) -> Table:
    """A square of pairs."""
    own, nothing = torch.eye(n, dtype=torch.bool), torch.full((n, n), float("nan"))
    return Table(torch.arange(n), torch.ones(n, n, dtype=torch.bool), own, nothing, temperature)


def closer(part: Tensor, share: float) -> Tensor:
    """All texts brought closer together: every cosine c becomes (1 - share) c + share."""
    return torch.cat([part * (1 - share) ** 0.5, torch.full((len(part), 1), share**0.5, dtype=part.dtype)], dim=1)


def test_least_loss_is_the_least_of_all_temperatures(vectors: tuple[Tensor, Tensor]) -> None:
    tried = [InfoNCE().loss(*vectors, table(float(t))).item() for t in np.geomspace(0.001, 1, 2000)]
    assert least_loss(*vectors, table(0.01)) == pytest.approx(min(tried), rel=1e-5)


def test_bringing_all_texts_closer_together_is_rewarded_by_the_loss_alone(vectors: tuple[Tensor, Tensor]) -> None:
    duller = closer(vectors[0], 0.3), closer(vectors[1], 0.3)
    assert InfoNCE().loss(*duller, table(0.01)) < 0.75 * InfoNCE().loss(*vectors, table(0.01))
    assert least_loss(*duller, table(0.01)) == pytest.approx(least_loss(*vectors, table(0.01)), rel=1e-5)


def test_an_encoder_that_errs_less_has_a_lower_least_loss(vectors: tuple[Tensor, Tensor]) -> None:
    queries, passages = vectors
    better = torch.nn.functional.normalize(queries + passages)
    assert least_loss(better, passages, table(0.01)) < 0.5 * least_loss(queries, passages, table(0.01))
    assert least_loss(passages, passages, table(0.01)) == pytest.approx(0, abs=1e-6)


@pytest.fixture
def judged(tiny_bert: Path, tmp_path: Path) -> tuple[TrainableEncoder, Rows]:
    """Queries with one answer and with several, of more or less worth, among passages that answer nothing."""
    rows = [
        (f"t{chr(97 + q)} w{chr(98 + q)}", f"t{chr(97 + q)} w{chr(97 + place)}", [float(3 - place)])
        for q in range(6)
        for place in range(1 + q % 3)
    ]
    queries, positives, worth = zip(*rows, strict=True)
    encoder = load(tiny_bert)
    return encoder, tokenized(Examples.of(queries, positives, targets=worth), encoder.tokens, tmp_path, **LENGTHS)


def test_ndcg_counts_every_known_answer_by_its_grade(judged: tuple[TrainableEncoder, Rows]) -> None:
    encoder, data = judged
    params = TrainParams(device="cpu", **LENGTHS)
    everything = RowSample(encoder, data, np.arange(len(data)), params).score("ndcg")
    assert 0.3 < everything < 1
    assert everything == pytest.approx(validate(encoder, data, 1024, autocast=False))


def test_an_answer_that_was_drawn_with_another_row_of_its_query_is_no_wrong_one(
    judged: tuple[TrainableEncoder, Rows],
) -> None:
    """Three answers of one query, and a passage of another that is farther from it than they are."""
    encoder, data = judged
    own, other = data.query_of == data.query_of[3], np.flatnonzero(data.query_of == data.query_of[0])
    rows = np.concatenate([np.flatnonzero(own), other])
    queries = embed(encoder, data.queries, 1024, autocast=False)
    passages = embed(encoder, data.passages, 1024, autocast=False)
    asked = [data.query_of[rows[0]], data.query_of[other[0]]]
    there = np.unique(data.positive_of[rows])
    expected = []
    for query in asked:
        known = {
            p: t for q, p, t in zip(data.query_of, data.positive_of, data.targets_of.values, strict=True) if q == query
        }
        ranked = there[np.argsort(-(queries[query] @ passages[there].T), kind="stable")]
        gains = [known.get(passage, 0.0) / np.log2(place + 2) for place, passage in enumerate(ranked)]
        best = sorted((worth for passage, worth in known.items() if passage in there), reverse=True)
        expected.append(sum(gains) / sum(worth / np.log2(place + 2) for place, worth in enumerate(best)))
    found = RowSample(encoder, data, rows, TrainParams(device="cpu", **LENGTHS)).score("ndcg")
    assert found == pytest.approx(np.mean(expected))


def test_a_target_s_gradient_recomputes_activations_where_a_training_does(
    judged: tuple[TrainableEncoder, Rows],
) -> None:
    encoder, data = judged
    drawn = RowSample(encoder, data, np.arange(len(data)), TrainParams(device="cpu", **LENGTHS))

    def gradient() -> tuple[list[Tensor], int]:
        """And the bytes that are kept for it."""
        kept = {}

        def pack(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        encoder.model.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            drawn.add_gradients(0, 1.0, ALONE)
        return [w.grad.clone() for w in encoder.model.parameters() if w.grad is not None], sum(kept.values())

    usual, held = gradient()
    encoder.model.activation_checkpointing_enable({"use_reentrant": False})
    again, held_then = gradient()
    assert held_then < held / 2
    assert all(torch.equal(*pair) for pair in zip(usual, again, strict=True))
    assert all(torch.equal(*pair) for pair in zip(usual, gradient()[0], strict=True))
    assert not any(part.training for part in encoder.model.modules())


def test_what_a_block_drops_out_itself_is_nothing_meanwhile() -> None:
    from transformers import BartConfig, BartModel

    small = {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = BartModel(BartConfig(d_model=8, encoder_layers=1, decoder_layers=1, vocab_size=20, dropout=0.5, **small))
    layer, ids = model.encoder.layers[0], torch.arange(6)[None]
    with without_dropout(model):
        assert layer.training and layer.dropout == 0
        assert torch.equal(*(model.encoder(input_ids=ids).last_hidden_state for _ in range(2)))
    assert (layer.training, layer.dropout) == (False, 0.5)
