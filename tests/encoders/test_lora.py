"""Adapters: what trains, what is saved of it, and what is left of them in the merged model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import MPNetConfig, MPNetModel

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.lora import Lora, merged, with_adapters
from pipeline_tasks.encoders.trunk import load
from tests import shapes

LORA = Lora(4, 8, ("q_proj", "down_proj"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shapes.make("qwen3", tmp_path_factory.mktemp("qwen3"))


def embedded(encoder) -> torch.Tensor:
    encoder.model.eval()
    with torch.no_grad():
        return encoder.encode(encoder.features(encoder.tokens.ids(["ta wb wc", "tb"], 16)))


def adapted(folder, seed: int = 0):
    encoder = load(folder)
    encoder.model = with_adapters(encoder.model, LORA, seed)
    return encoder


def test_adapters_alone_train_and_change_nothing_at_first(folder):
    encoder = adapted(folder)
    assert torch.equal(embedded(encoder), embedded(load(folder)))
    names = encoder.trained()
    assert len(names) == 2 * 2 * 2  # layers, targets, matrices
    assert all("lora_" in name for name in names)


def test_a_pooler_that_no_vector_is_made_of_is_no_target(folder):
    model = load(folder).model
    model.pooler = torch.nn.Linear(32, 32)
    with pytest.raises(InputError, match=r"\['pooler'\].*has no such linear layer; name some of down_proj"):
        with_adapters(model, replace(LORA, targets=("pooler",)), 0)


def test_the_seed_decides_how_they_begin(folder):
    one, same, other = (adapted(folder, seed).trained() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_what_trained_is_restored_and_nothing_else_is_asked_for(folder):
    encoder = adapted(folder)
    with torch.no_grad():
        for weights in encoder.trained().values():
            weights.add_(0.1)
    again = adapted(folder, seed=3)
    again.restore(encoder.trained())
    assert torch.equal(embedded(again), embedded(encoder))
    with pytest.raises(InputError, match="of another model"):
        load(folder).restore(encoder.trained())


def test_merged_weights_give_the_vectors_of_the_adapters(folder):
    encoder = adapted(folder)
    with torch.no_grad():
        for weights in encoder.trained().values():
            weights.add_(0.05)
    wanted = embedded(encoder)
    encoder.model = merged(encoder.model)
    assert not any("lora" in name for name in encoder.model.state_dict())
    torch.testing.assert_close(embedded(encoder), wanted, rtol=0, atol=1e-5)
    assert not torch.allclose(wanted, embedded(load(folder)), atol=1e-3)


def test_a_model_without_adapters_is_left_alone(folder):
    model = load(folder).model
    assert merged(model) is model


@pytest.mark.parametrize("targets", [("query",), ("q_proj", "nowhere")])
def test_a_layer_that_is_not_there_is_named(folder, targets):
    with pytest.raises(InputError, match="name some of .*q_proj"):
        with_adapters(load(folder).model, replace(LORA, targets=targets), 0)


@pytest.mark.parametrize("shape", ["bert", "mpnet", "modernbert", "qwen3"])
def test_where_none_is_named_all_linear_layers_of_the_blocks_get_adapters(shape, tmp_path):
    if shape == "mpnet":
        model = MPNetModel(MPNetConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
    else:
        model = load(shapes.make(shape, tmp_path)).model
    linear = [name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)]
    inside = [name for name in linear if not name.startswith("pooler.")]
    found = {name for name, weights in with_adapters(model, replace(LORA, targets=()), 0).named_parameters()
             if weights.requires_grad}  # fmt: skip
    assert found == {f"base_model.model.{name}.lora_{side}.default.weight" for name in inside for side in "AB"}
