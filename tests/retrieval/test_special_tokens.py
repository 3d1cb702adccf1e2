import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.retrieval.torch_encoder import TorchEncoder, TorchSource
from tests.retrieval.tiny import END, WORDS, decoder

TEXTS = ["flood", "storm fire smoke ash wave river", "water road", " ".join(WORDS * 2)]


def alone(folder, ids, causal=True):
    """The hidden states of one unpadded input, by transformers itself."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    model.config.is_causal = causal
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


def unit(vector):
    return vector / np.linalg.norm(vector)


def ids_of(text, length=12):
    """<s> words </s>, cut to ``length`` with both in place."""
    words = [4 + WORDS.index(word) for word in text.split()]
    return [2, *words[: length - 2], 3]


@pytest.mark.parametrize("ends", [False, True])
def test_every_input_of_a_last_token_model_ends_in_its_end_token_once(tmp_path, ends):
    encoder = load_encoder(decoder(tmp_path / "m", ends=ends), tmp_path)
    assert encoder.layout.append == END
    assert [ids.tolist() for ids in encoder._tokens(TEXTS)] == [ids_of(text) for text in TEXTS]


def test_nothing_is_appended_where_the_model_does_not_ask_for_it(tmp_path):
    encoder = load_encoder(decoder(tmp_path / "m", add_end=False), tmp_path)
    assert encoder._tokens(["flood"])[0].tolist() == [2, 4]


@pytest.mark.parametrize("causal", [True, False])
def test_the_last_token_is_found_among_padding_and_padding_has_no_say(tmp_path, causal):
    folder = decoder(tmp_path / "m")
    layout = replace(layout_of_folder(folder), causal=causal)
    vectors = TorchEncoder(TorchSource("m", folder, layout, 1)).encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, unit(alone(folder, ids_of(text), causal)[-1]), atol=1e-5)


@pytest.mark.parametrize(("pooling", "of"), [("mean", lambda h: h.mean(axis=0)), ("cls", lambda h: h[0])])
def test_other_poolings_of_a_decoder(tmp_path, pooling, of):
    folder = decoder(tmp_path / "m", pooling=pooling)
    vectors = load_encoder(folder, tmp_path).encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, unit(of(alone(folder, ids_of(text)))), atol=1e-5)


def test_a_later_word_moves_the_first_hidden_state_only_where_attention_goes_both_ways(tmp_path):
    folder = decoder(tmp_path / "m", pooling="cls")
    pair = ["flood storm fire", "flood storm ash", " ".join(WORDS)]

    def moved(causal):
        layout = replace(layout_of_folder(folder), causal=causal)
        one, other, _ = TorchEncoder(TorchSource("m", folder, layout, 1)).encode(pair)
        return np.abs(one - other).max()

    assert moved(True) < 1e-6 < 1e-3 < moved(False)


def test_an_end_token_that_the_tokenizer_does_not_know_is_refused(tmp_path):
    folder = decoder(tmp_path / "m")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 12, "eos_token": {"content": "<|end|>"}, "add_eos_token": True})
    )
    with pytest.raises(InputError, match=r"no token '<\|end\|>'"):
        load_encoder(folder, tmp_path)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_hardly_turns_a_vector(tmp_path, precision):
    folder = decoder(tmp_path / "m")
    exact = load_encoder(folder, tmp_path).encode(TEXTS)
    cosines = (load_encoder(folder, tmp_path, precision=precision).encode(TEXTS) * exact).sum(axis=1)
    assert 0.99 < cosines.min() < 1 - 1e-7
