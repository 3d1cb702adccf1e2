"""A query and a passage are read together: as transformers reads them, whatever else is in the batch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval import cross_encoder
from pipeline_tasks.retrieval.cross_encoder import load_cross_encoder
from tests import small_reranker
from tests.shapes import FILLERS, TOPICS

QUERIES = ["ta tb", "tc", "ta tb", "td te tf tg"]
PASSAGES = [" ".join(FILLERS), "wa", "tb ta wa wb", " ".join(TOPICS)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small_reranker.make(tmp_path_factory.mktemp("reranker"))


def test_scores_are_those_of_transformers_and_come_in_the_order_of_the_pairs(made):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(made), AutoModelForSequenceClassification.from_pretrained(made)
    model.eval()

    def alone(query: str, passage: str) -> float:
        ids = torch.tensor([tokenizer(query, passage)["input_ids"]])
        kinds = torch.zeros_like(ids)
        kinds[0, len(query.split()) + 2 :] = 1
        with torch.inference_mode():
            return model(ids, token_type_ids=kinds).logits.item()

    told = []
    found = load_cross_encoder(made, 64, 1).scores(QUERIES, PASSAGES, told.append)
    assert found.dtype == np.float32 and sum(told) == len(QUERIES)
    assert found == pytest.approx([alone(*pair) for pair in zip(QUERIES, PASSAGES, strict=True)], abs=1e-5)
    assert len(set(found.round(4).tolist())) == len(QUERIES)


def test_pairs_are_tokenised_a_slice_at_a_time(made, monkeypatch):
    model = load_cross_encoder(made, 64, 1)
    whole = model.scores(QUERIES * 2, PASSAGES * 2)
    begun, done, waiting, tokenizer = [], [], [], model._tokenizer

    class Watched:
        def encode_batch(self, pairs):
            begun.append(len(pairs))
            waiting.append(sum(begun) - sum(done))
            return tokenizer.encode_batch(pairs)

    model._tokenizer = Watched()
    monkeypatch.setattr(cross_encoder, "_PAIRS_AT_ONCE", 3)
    assert model.scores(QUERIES * 2, PASSAGES * 2, done.append) == pytest.approx(whole, abs=1e-5)
    assert waiting == [3, 3, 2] and sum(done) == 8


def test_a_passage_is_cut_at_the_length_that_is_read(made):
    model = load_cross_encoder(made, 16, 1)
    cut = " ".join(TOPICS[: 16 - 3 - 1])
    long, short, shorter = model.scores(["wa"] * 3, [" ".join(TOPICS), cut, cut.rsplit(" ", 1)[0]])
    assert long == pytest.approx(short, abs=1e-6) and abs(long - shorter) > 1e-4


def test_a_model_with_several_scores_or_a_shorter_memory_is_refused(made, tmp_path):
    with pytest.raises(InputError, match="gives 3 scores for a pair"):
        load_cross_encoder(small_reranker.make(tmp_path, n_scores=3), 64, 1)
    with pytest.raises(InputError, match="max_length=512, and .* reads 64 tokens"):
        load_cross_encoder(made, 512, 1)


def test_a_model_whose_first_token_is_behind_padding_reads_what_the_error_names(tmp_path):
    folder = small_reranker.make(tmp_path, kind="XLMRoberta")
    with pytest.raises(InputError, match="max_length=64, and .* reads 63 tokens"):
        load_cross_encoder(folder, 64, 1)
    assert np.isfinite(load_cross_encoder(folder, 63, 1).scores(["ta"], [" ".join(TOPICS * 4)])).all()


def test_a_damaged_graph_is_refused_in_a_sentence(made, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((made / "tokenizer.json").read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"half of a graph")
    with pytest.raises(InputError, match="model.onnx cannot be read by ONNX Runtime .*: save or fetch the model again"):
        load_cross_encoder(tmp_path, 64, 1)


def test_a_folder_without_a_scoring_head_is_refused(made, tmp_path):
    import shutil

    from safetensors.numpy import load_file, save_file

    folder = shutil.copytree(made, tmp_path / "trunk")
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks 2 weights, among them 'classifier"):
        load_cross_encoder(folder, 64, 1)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"


def test_the_real_model_puts_the_answer_before_what_leaves_it_open(fetched):
    model = load_cross_encoder(fetched("ms-marco-minilm-l12"), 512, 1)
    query = "what must be done with drinking water after a flood"
    passages = [
        "After a flood the drinking water must be boiled for ten minutes.",
        "After a flood the works look at the drinking water first, and say what must be done with it.",
        "The siren means all clear with one long tone.",
    ]
    together = model.scores([query] * 3, passages)
    assert together.argsort().tolist() == [2, 1, 0]
    assert [model.scores([query], [text])[0] for text in passages] == together.tolist()


def test_the_graph_is_asked_for_no_more_than_it_reads(fetched):
    with pytest.raises(InputError, match="max_length=513 is more than .* reads"):
        load_cross_encoder(fetched("ms-marco-minilm-l12"), 513, 1)
