"""What loads, what is refused, and what an embedding is."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.retrieval.tiny import decoder


def sequences(encoder, texts: list[str]) -> list[np.ndarray]:
    return [np.array(ids, dtype=np.int32) for ids in encoder.tokenizer(texts)["input_ids"]]


def test_embeddings_are_unit_means_untouched_by_padding(tiny_bert) -> None:
    encoder = load(tiny_bert)
    encoder.model.eval()
    short, long = sequences(encoder, ["ta wb", "tb wa wb wc wd we wf"])
    with torch.no_grad():
        together = encoder.encode(encoder.features([short, long]))
        alone = encoder.encode(encoder.features([short]))
        hidden = encoder.model(**encoder.features([short])).last_hidden_state[0].mean(dim=0)
    assert together.shape == (2, 32)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(together[0], alone[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(alone[0], hidden / hidden.norm())


def test_absent_pooler_is_zero_and_not_trained(tiny_bert) -> None:
    pooler = load(tiny_bert).model.pooler
    assert all(not weights.requires_grad and not weights.any() for weights in pooler.parameters())


def test_absent_weights_are_refused(tiny_bert, tmp_path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_bert, broken)
    weights = load_file(broken / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"encoder\.layer\.1\.output\.dense\.weight"):
        load(broken)


def test_folder_without_a_model_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="no model that transformers can load"):
        load(tmp_path)


def test_adapters_beside_the_weights_are_refused(tiny_bert, tmp_path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "adapted")
    model = get_peft_model(load(folder).model, LoraConfig(r=2, target_modules=["query"]))
    model.save_pretrained(folder)
    with pytest.raises(InputError, match="adapters beside its weights .*merge them into the model"):
        load(folder)


def test_pickles_are_not_read(tiny_bert, tmp_path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_bert, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no model that transformers can load"):
        load(folder)


@pytest.mark.parametrize(("mode", "of"), [("cls_token", lambda h: h[0]), ("lasttoken", lambda h: h[-1])])
def test_a_folder_is_pooled_as_it_says(tiny_bert, tmp_path, mode, of) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_bert, folder)
    modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {f"pooling_mode_{mode}": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    encoder = load(folder)
    short, long = encoder.tokens.ids(["ta wb", "tb wa wb wc wd we wf"], 16)
    with torch.no_grad():
        pooled = encoder.encode(encoder.features([short, long]))
        hidden = encoder.model(torch.tensor([short.tolist()])).last_hidden_state[0]
    torch.testing.assert_close(pooled[0], of(hidden) / of(hidden).norm(), rtol=1e-4, atol=1e-5)


def test_a_prefix_is_left_out_of_the_mean(tiny_bert) -> None:
    encoder = load(tiny_bert)
    texts = encoder.tokens.ids(["wa wb ta", "ta"], 16)
    lengths = encoder.tokens.prefix_lengths(["wa wb ", ""])
    assert lengths.tolist() == [3, 0]
    with torch.no_grad():
        pooled = encoder.encode(encoder.features(texts, lengths))
        hidden = encoder.model(torch.tensor([texts[0].tolist()])).last_hidden_state[0, 3:].mean(dim=0)
    torch.testing.assert_close(pooled[0], hidden / hidden.norm(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "holds no model that"),
        (
            "config.json",
            b'{"model_type": "bert", "hidden_size": 16, "vocab_size": 9, "max_position_embeddings": 64}',
            "holds no model that|lacks",
        ),
        ("tokenizer.json", b'{"version": "1.0"', "is no tokenizer|no tokenizer that can be read"),
    ],
)
def test_a_damaged_folder_is_told_without_a_traceback(tmp_path, name, content, message):
    folder = shapes.make("bert", tmp_path / "mine")
    (folder / name).write_bytes(content)
    for read in (load, partial(load_encoder, cache_dir=tmp_path)):
        with pytest.raises(InputError, match=message):
            read(folder)


@pytest.mark.parametrize("shape", ["t5", "umt5", "bart"])
def test_with_a_decoder_beside_its_encoder_a_model_embeds_as_sentence_transformers_has_it(tmp_path, shape):
    from sentence_transformers import SentenceTransformer

    whole, texts = shapes.make(shape, tmp_path / "whole"), ["ta wb", "tb wa wb wc wd we wf", "tc"]
    export(load(whole), tmp_path / "out", card={}, layout=Layout("mean", 64))
    assert any(name.startswith("decoder.") for name in load_file(whole / "model.safetensors"))
    for folder in (whole, tmp_path / "out"):
        theirs = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
        np.testing.assert_allclose(load_encoder(folder, tmp_path).encode(texts), theirs, atol=1e-6)


def test_a_decoder_that_wants_a_text_of_its_own_is_refused(tmp_path):
    with pytest.raises(InputError, match="'longt5' model, whose decoder wants a text of its own.*t5, mt5, umt5"):
        load_encoder(shapes.make("longt5", tmp_path / "m"), tmp_path)


def test_training_reads_tokens_as_search_does_where_a_class_would_put_parts_of_its_own_in_their_place(tmp_path):
    """Qwen's class has a normaliser, and another model than the file: it would make one token of all words."""
    from sentence_transformers import SentenceTransformer

    texts, folder = ["flood", "storm fire smoke"], decoder(tmp_path / "m")
    encoder = load(folder)
    export(encoder, tmp_path / "out", card={"name": "out"}, layout=encoder.layout)
    for made in (folder, tmp_path / "out"):
        searched = TextTokens(load_tokenizer(made), encoder.layout.append).ids(texts, 12)
        trained = load(made).tokens.ids(texts, 12)
        assert [ids.tolist() for ids in trained] == [ids.tolist() for ids in searched] and len(set(searched[1])) > 2
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True).encode(texts)
    ours = load_encoder(tmp_path / "out", tmp_path, threads=1).encode(texts)
    assert ((theirs * ours).sum(axis=1) > 0.9999).all()
