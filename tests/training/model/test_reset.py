"""Top layers as identity: the output is that of the layer below, up to the layers' own normalisation."""

import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.model.reset import reset_top_layers


def test_reset_layers_pass_through_what_the_layer_below_says(tiny_bert, tmp_path):
    target = reset_top_layers(tiny_bert, tmp_path / "trunk", 1)
    features = {"input_ids": torch.tensor([[2, 5, 6, 3]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    with torch.no_grad():
        before = load(tiny_bert).model(**features, output_hidden_states=True).hidden_states
        after = load(target).model(**features, output_hidden_states=True).hidden_states
    expected = torch.nn.functional.layer_norm(before[-2], before[-2].shape[-1:], eps=1e-12)
    assert torch.allclose(after[-1], expected, atol=1e-4)
    assert not torch.allclose(after[-1], before[-1], atol=1e-2)


def test_reset_is_repeatable_and_refuses_too_many_layers(tiny_bert, tmp_path):
    first = reset_top_layers(tiny_bert, tmp_path / "a", 1)
    second = reset_top_layers(tiny_bert, tmp_path / "b", 1)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="reset_layers=99"):
        reset_top_layers(tiny_bert, tmp_path / "c", 99)


def test_an_embedder_that_is_asked_with_a_prompt_is_not_reset(tiny_bert, tmp_path):
    for prompt in ("", "query: "):
        folder = tmp_path / f"asked {prompt}"
        export(load(tiny_bert), folder, card={}, layout=Layout("mean", 32, prefixes={"query": prompt}))
        if prompt:
            with pytest.raises(InputError, match="is an embedder, which knows what a text means; choose 0"):
                reset_top_layers(folder, tmp_path / "reset", 1)
        else:
            assert reset_top_layers(folder, tmp_path / "reset", 1).is_dir()
