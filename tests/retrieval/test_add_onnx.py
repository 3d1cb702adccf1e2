"""A graph that is exported gives PyTorch's vectors, and what int8 weights lose is measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.tokens import TextTokens, padded
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval import add_onnx
from pipeline_tasks.retrieval.add_onnx import EXACT, INT8, add_graphs
from pipeline_tasks.retrieval.onnx_encoder import OnnxEncoder
from pipeline_tasks.retrieval.torch_encoder import TorchEncoder, TorchSource
from pipeline_tasks.training.model.export import export
from tests import shapes

TEXTS = ["ta wb wc", "tb", "tc wa wb wc wd we wf wg wh wi wj wk wl tq"]
ASKED = {"query": "wa ", "passage": "wb "}


@pytest.fixture(scope="module", params=["bert", "qwen3"])
def exported(request, tmp_path_factory):
    """A folder with both graphs, and what was said of them."""
    root = tmp_path_factory.mktemp(request.param)
    encoder = load(shapes.make(request.param, root / "plain"))
    export(encoder, root / "m", card={"name": "Tiny"}, layout=Layout("mean", 32, prefixes=ASKED))
    return root / "m", add_graphs(root / "m", TEXTS, int8=True, threads=1)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_vectors_of_the_graph_are_those_of_pytorch(exported, pooling):
    folder, _ = exported
    layout = replace(layout_of(folder), pooling=pooling)
    ours = TorchEncoder(TorchSource("tiny", folder, layout, 1))
    theirs = OnnxEncoder("tiny", folder / EXACT, layout, load_tokenizer(folder), 1)
    for texts in (ours.encode_passages, theirs.encode_passages), (ours.encode_queries, theirs.encode_queries):
        np.testing.assert_allclose(*(encode(TEXTS) for encode in texts), atol=1e-5)
    batch = padded(TextTokens(load_tokenizer(folder)).ids(TEXTS, 32), layout.pad_id)
    np.testing.assert_allclose(theirs.pooled(batch), ours.pooled(batch), atol=1e-5)


def test_what_int8_loses_is_said_as_it_is(exported):
    folder, said = exported
    assert said[EXACT].endswith("(3 passages)")
    mean, least = map(float, re.findall(r"(\d\.\d{4})", said[INT8]))
    exact, small = (
        OnnxEncoder("tiny", folder / name, layout_of(folder), load_tokenizer(folder), 1).encode_passages(TEXTS)
        for name in (EXACT, INT8)
    )
    cosines = (exact * small).sum(axis=1)
    assert (mean, least) == (pytest.approx(cosines.mean(), abs=1e-4), pytest.approx(cosines.min(), abs=1e-4))
    assert 0.9 < least <= mean <= 1
    assert (folder / INT8).stat().st_size < (folder / EXACT).stat().st_size


def test_nothing_is_left_beside_them_and_the_folder_still_runs_on_pytorch(exported):
    folder, _ = exported
    assert sorted(path.name for path in (folder / "onnx").iterdir()) == ["model.onnx", "model_int8.onnx"]
    assert not list(folder.glob(".onnx-*")) and not list(folder.glob("*.onnx"))
    assert json.loads((folder / "modules.json").read_text())


def test_a_graph_with_other_vectors_is_not_kept(exported, monkeypatch):
    folder, _ = exported
    monkeypatch.setattr(add_onnx, "LARGEST_DIFFERENCE", -1.0)
    made = (folder / EXACT).read_bytes()
    monkeypatch.setattr(add_onnx, "write_graph", lambda model, target, longest: target.write_bytes(made))
    before = (folder / EXACT).stat().st_mtime_ns
    with pytest.raises(InputError, match="differ from PyTorch's by .*export without --onnx"):
        add_graphs(folder, TEXTS, int8=False, threads=1)
    assert (folder / EXACT).stat().st_mtime_ns == before and not list(folder.glob(".onnx-*"))


def test_weights_that_lie_beside_a_graph_are_moved_with_it(tmp_path, monkeypatch):
    """Those of models above 1.5 GB; a limit of none makes any model one."""
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 0)
    export(load(shapes.make("bert", tmp_path / "plain")), tmp_path / "m", card={"name": "x"}, layout=Layout("mean", 32))
    add_graphs(tmp_path / "m", TEXTS, int8=True, threads=1)
    made = {path.name for path in (tmp_path / "m" / "onnx").iterdir()}
    assert {"model.onnx", "model.onnx.data", "model_int8.onnx"} <= made
    for graph in (EXACT, INT8):
        layout, words = layout_of(tmp_path / "m"), load_tokenizer(tmp_path / "m")
        assert OnnxEncoder("tiny", tmp_path / "m" / graph, layout, words, 1).encode_passages(TEXTS).shape == (3, 32)
