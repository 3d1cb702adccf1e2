"""Dense modules after pooling: read, applied wherever a model runs, and written as sentence-transformers has them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.encoders.projection import Dense, project, read_dense, save_dense, turned
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.model.export import export
from tests import shapes

TEXTS = ["ta wb wc", "tb", "tc wa wb wc wd we wf wg wh wi wj wk wl tq"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As sentence-transformers itself saves a model with two Dense modules, the first with a bias and tanh."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense as Theirs
    from sentence_transformers.models import Normalize, Pooling, Transformer

    tiny, folder = shapes.make("bert", tmp_path_factory.mktemp("tiny")), tmp_path_factory.mktemp("dense")
    trunk = Transformer(str(tiny), max_seq_length=32)
    width = trunk.get_embedding_dimension()
    torch.manual_seed(0)
    layers = Theirs(width, 12), Theirs(12, 7, bias=False, activation_function=torch.nn.Identity())
    SentenceTransformer(modules=[trunk, Pooling(width), *layers, Normalize()]).save(str(folder))
    return folder


def theirs(folder) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)


def trained(folder) -> np.ndarray:
    """As training embeds."""
    encoder = load(folder)
    ids = encoder.tokens.ids(TEXTS, 32)
    with torch.no_grad():
        return encoder.encode(encoder.features(ids)).numpy()


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_search_and_training_give_the_vectors_of_sentence_transformers(folder, tmp_path, monkeypatch, precision):
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path))
    searched = load_encoder(folder, tmp_path, threads=1, precision=precision)
    assert searched.dim == load(folder).width == 7
    least = 0.99 if precision == "int8" else 0.999999
    assert ((searched.encode_passages(TEXTS) * theirs(folder)).sum(axis=1) > least).all()
    np.testing.assert_allclose(trained(folder), theirs(folder), atol=1e-5)


def test_autocast_leaves_them_in_float32(folder):
    encoder = load(folder)
    ids = encoder.tokens.ids(TEXTS, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert encoder.encode(encoder.features(ids)).dtype is torch.float32


def test_gradients_go_through_them_to_the_trunk_and_stop_there(folder):
    encoder = load(folder)
    encoder.encode(encoder.features(encoder.tokens.ids(TEXTS, 32)))[:, 0].sum().backward()
    assert all(name.split(".")[0] in ("embeddings", "encoder") for name in encoder.trained())
    assert any(weights.grad is not None and weights.grad.abs().max() > 0 for weights in encoder.model.parameters())


def test_an_export_has_them_again(folder, tmp_path):
    encoder = load(folder)
    export(encoder, tmp_path / "m", card={}, layout=encoder.layout)
    assert layout_of(tmp_path / "m").projection == layout_of(folder).projection
    np.testing.assert_allclose(theirs(tmp_path / "m"), theirs(folder), atol=1e-5)
    assert "7 dimensions" in (tmp_path / "m" / "README.md").read_text()


def test_a_matrix_is_multiplied_into_what_is_linear_and_follows_what_is_not():
    random = np.random.default_rng(0)
    matrix, vectors = random.standard_normal((3, 3)), random.standard_normal((5, 4)).astype(np.float32)
    weights, bias = random.standard_normal((3, 4)).astype(np.float32), np.ones(3, np.float32)
    for layers, as_many in (((), 1), ((Dense(weights, bias),), 1), ((Dense(weights, bias, tanh=True),), 2)):
        given = vectors if layers else vectors[:, :3]
        found = turned(layers, matrix)
        assert len(found) == as_many
        np.testing.assert_allclose(project(given, found), project(given, layers) @ matrix.T, rtol=1e-4, atol=1e-5)


def test_layers_are_equal_by_what_they_hold():
    one = Dense(np.eye(2, dtype=np.float32))
    assert one == Dense(np.eye(2, dtype=np.float32))
    assert one not in (replace(one, tanh=True), replace(one, bias=np.zeros(2)), Dense(2 * one.weights), "a layer")


def test_what_is_written_is_read(tmp_path):
    for layer in (Dense(np.eye(2, 3, dtype=np.float32)), Dense(np.eye(2, dtype=np.float32), np.ones(2), tanh=True)):
        save_dense(layer, tmp_path)
        assert read_dense(tmp_path) == layer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"activation_function": "os.system"}, "the activation os.system: only Identity and Tanh work"),
        ({"use_residual": True}, "a residual: only Identity"),
        ({"out_features": 3}, r"weights of shape \(12, .*its config says \(3, .*get the whole model"),
        ({"in_features": "many"}, "is no Dense module.*save it again"),
    ],
)
def test_what_is_not_supported_is_refused(folder, tmp_path, change, said):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = copy / "2_Dense" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(InputError, match=said):
        layout_of(copy)


def test_weights_in_half_precision_are_read_as_they_are(folder, tmp_path):
    weights = shutil.copytree(folder, tmp_path / "copy") / "2_Dense" / "model.safetensors"
    halved = {name: of.bfloat16() for name, of in load_file(weights).items()}
    save_file(halved, weights)
    np.testing.assert_array_equal(layout_of(tmp_path / "copy").projection[0].bias, halved["linear.bias"].float())


def test_weights_that_are_missing_or_cut_off_are_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = copy / "2_Dense" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:40])
    with pytest.raises(InputError, match="is no Dense module"):
        layout_of(copy)
    weights.unlink()
    with pytest.raises(InputError, match="save the model with sentence-transformers 3 or later, without pickles"):
        layout_of(copy)


def test_a_dense_module_before_pooling_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    modules = json.loads((copy / "modules.json").read_text())
    (copy / "modules.json").write_text(json.dumps([modules[0], modules[2], modules[1], *modules[3:]]))
    with pytest.raises(InputError, match="has a module Dense at '2_Dense': only Transformer, Pooling, Dense after it"):
        layout_of(copy)
