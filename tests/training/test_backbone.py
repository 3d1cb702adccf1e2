"""What loads, what is refused, and what an embedding is."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.backbone import encode_batch, load


def sequences(encoder, texts: list[str]) -> list[np.ndarray]:
    return [np.array(ids, dtype=np.int32) for ids in encoder.tokenizer(texts)["input_ids"]]


def test_embeddings_are_unit_means_untouched_by_padding(tiny_bert) -> None:
    encoder = load(tiny_bert)
    encoder.model.eval()
    short, long = sequences(encoder, ["ta wb", "tb wa wb wc wd we wf"])
    with torch.no_grad():
        together = encode_batch(encoder.model, encoder.features([short, long]))
        alone = encode_batch(encoder.model, encoder.features([short]))
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
    with pytest.raises(InputError, match="not a model"):
        load(tmp_path)


def test_other_pooling_is_refused(tiny_bert, tmp_path) -> None:
    folder = tmp_path / "cls"
    shutil.copytree(tiny_bert, folder)
    modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(InputError, match="pooling_mode_cls_token"):
        load(folder)
