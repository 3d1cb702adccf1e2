"""A tokenizer of another model is refused by whoever gives its tokens to a model, once it makes one too high."""

import shutil

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import layout_of_spec
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.add_onnx import EXACT, add_graphs
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.model.export import export
from tests import shapes

TOO_HIGH = r"tokenizer of .*m gives token 99 \('zz'\), and its embeddings have 41 rows: save there the tokenizer"


@pytest.mark.parametrize("runs_on", ["torch", "torch on two devices", "onnx"])
def test_search_refuses_a_token_without_an_embedding_and_no_vocabulary_with_unused_ones(tiny_bert, tmp_path, runs_on):
    encoder = load(tiny_bert)
    export(encoder, tmp_path / "right", card={"name": "right"}, layout=encoder.layout)
    if runs_on == "onnx":
        add_graphs(tmp_path / "right", ["ta wb"], int8=False, threads=1)
        shutil.copy(tmp_path / "right" / EXACT, tmp_path / "right" / "model.onnx")
    folder = shapes.with_tokens(tmp_path / "right", tmp_path / "m", zz=99)
    search = load_encoder(folder, tmp_path, 1, "cpu,cpu" if runs_on.endswith("devices") else "cpu")
    assert search.encode_passages(["ta wb"]).shape == (1, 32)
    with pytest.raises(InputError, match=TOO_HIGH):
        search.encode_passages(["ta", "ta zz"])


def test_a_registered_model_says_how_many_tokens_it_has_too(tiny_bert):
    assert layout_of_spec(get("bge-small-en-v1.5"), tiny_bert, {}).n_tokens == 41


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_training_counts_the_rows_that_the_model_has(tmp_path, shape):
    encoder = load(shapes.make(shape, tmp_path / "m"))
    assert encoder.layout.n_tokens == len(encoder.model.get_input_embeddings().weight)
