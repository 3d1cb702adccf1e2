"""What a few tokens tell of a model that is opened: whether it looks ahead, and that it reads texts at all."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
import transformers

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.states import Scores, hidden_states, looks_ahead, scores_of_head
from pipeline_tasks.encoders.trunk import load, load_model
from pipeline_tasks.retrieval.open_encoder import load_encoder
from tests import shapes

NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8}


@pytest.mark.parametrize(
    ("kind", "more"), [("gpt_neo", NEO), ("mamba", {}), ("stablelm", {"num_key_value_heads": 4}), ("mpt", {})]
)
def test_a_model_that_is_to_look_ahead_and_does_not_is_refused_wherever_it_is_opened(tmp_path, kind, more):
    folder = shapes.of_kind(kind, tmp_path / "model", **more)
    assert load(folder).model.config.model_type == kind
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"is_causal": False}))
    for read in (load, partial(load_encoder, cache_dir=tmp_path)):
        with pytest.raises(InputError, match=f"a '{kind}' model that is to attend both ways .*name another decoder"):
            read(folder)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_others_look_ahead_just_where_they_are_to(tmp_path, dtype):
    for folder in (*(shapes.make(kind, tmp_path / kind) for kind in shapes.DECODERS), shapes.of_kind("gpt2", tmp_path)):
        for causal in (True, False):
            assert looks_ahead(load_model(folder, causal=causal, dtype=dtype)) is not causal
    for shape in ("bert", "modernbert", "bart"):
        assert looks_ahead(load_model(shapes.make(shape, tmp_path / shape), dtype=dtype))


def test_looking_leaves_random_numbers_and_weights_as_they_are(tmp_path):
    model = load_model(shapes.make("bert", tmp_path / "bert"))
    before, weights = torch.get_rng_state(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert looks_ahead(model)
    assert torch.equal(torch.get_rng_state(), before) and not model.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_of_texts_and_images_is_refused_before_it_is_trained_or_searched_with(tmp_path):
    folder = shapes.make("qwen3", tmp_path / "model")
    told = folder / "tokenizer_config.json"
    told.write_text(json.dumps(json.loads(told.read_text()) | {"model_max_length": 64}))
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = small | {"vocab_size": 60, "num_key_value_heads": 2, "head_dim": 8}
    image = small | {"image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=image, mm_tokens_per_image=4)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    adapted = partial(load_model, causal=False, head="next_token")
    for read in (load, partial(load_encoder, cache_dir=tmp_path), adapted):
        with pytest.raises(InputError, match="is a 'gemma3' model, .*save its text model alone"):
            read(folder)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("granite", {"logits_scaling": 6.0}, Scores(0.167)),
        ("cohere", {"logit_scale": 0.0625}, Scores(0.0625)),
        ("gemma2", {"head_dim": 8, "final_logit_softcapping": 3.0}, Scores(1.0, 3.0)),
        ("llama", {}, Scores()),
    ],
)
def test_a_head_scores_as_its_model_does(tmp_path, kind, more, expected, dtype):
    folder = shapes.of_kind(kind, tmp_path, num_key_value_heads=2, **more)
    model = load_model(folder, causal=False, head="next_token", dtype=dtype)
    with torch.no_grad():
        model.base_model.norm.weight.mul_(8 if kind != "gemma2" else 1).add_(8 if kind == "gemma2" else 0)
    found = scores_of_head(tmp_path, model)
    assert (found.factor, found.cap) == (pytest.approx(expected.factor, rel=0.01), expected.cap)
    assert kind != "llama" or found == Scores()
    features = {"input_ids": torch.tensor([[5, 6, 7, 9]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    with torch.no_grad():
        scores, hidden = model(**features).logits, hidden_states(model.base_model, features)
        ours = found(model.get_output_embeddings()(hidden.to(scores.dtype)))
    torch.testing.assert_close(ours, scores, rtol=0.02, atol=0.02)
    assert kind != "gemma2" or scores.abs().max() > 1, "large enough to be bent"


@pytest.mark.parametrize(("kind", "more"), [("bert", {}), ("roberta", {}), ("electra", {"embedding_size": 16})])
def test_a_head_that_is_more_than_a_product_is_refused(tmp_path, kind, more):
    model = load_model(shapes.of_kind(kind, tmp_path, **more), causal=False, head="next_token")
    with pytest.raises(InputError, match=f"a '{kind}' model, whose head does more .*choose a size with one"):
        scores_of_head(tmp_path, model)
