"""A model whose text model is one of several parts is refused when it is opened."""

from __future__ import annotations

import json
from functools import partial

import pytest
import transformers

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load, load_model
from pipeline_tasks.retrieval.open_encoder import load_encoder
from tests import shapes


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
