"""Pre-training as a step: its model takes no prompts, since it was trained without."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES, TRIPLETS
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.sizes import backbone, get_size
from pipeline_tasks.retrieval.open_encoder import load_encoder, open_encoder
from pipeline_tasks.training.compute.candidates import make_group
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.pretrain import PretrainParams, dev_set, pretrain, training_rows
from tests.stores import go, put

TEXTS = ["sandbags keep water out", "a tornado takes the roof", "smoke fills the valley", "ash falls on the road"]


CUT = [
    " ".join(f"Sentence number {i} of {topic} tells a crew what to do at gate {i}." for i in range(5))
    for topic in ("floods", "fires")
]
SHORT = {"batch_size": 8, "max_query_length": 16, "max_passage_length": 16, "device": "cpu"}


def pair(number: int, text: str, split: str) -> dict:
    """A query that is the end of its passage."""
    return {
        "query_id": f"q{number}-{split}",
        "intent": "qa",
        "query": text.split(" ", 1)[1],
        "passage_id": f"p{number}",
        "passage": text,
        "positive_id": f"g{number}",
        "positive": f"about {text}",
        "split": split,
    }


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PAIRS, [pair(i, text, "train") for i, text in enumerate(TEXTS)], dataset="mtp")
    return store


@pytest.mark.parametrize("views", [("source", "written", "restated"), ("written", "restated"), ("source", "written")])
def test_no_text_is_a_negative_of_itself_nor_of_a_sentence_that_it_holds(store, tiny_bert, tmp_path, views) -> None:
    written = [pair(i, text, "train") | {"query": f"query {i}", "positive": f"word {i}"} for i, text in enumerate(CUT)]
    put(store, PAIRS, written, dataset="mtp")
    cut = [{"passage_id": f"p{i}", "text": text, "split": "train"} for i, text in enumerate(CUT)]
    pairs, cloze = (Version.open(store, ref) for ref in (Ref.parse("mtp"), put(store, PASSAGES, cut)))
    layout = Layout("mean", 64, prefixes={"query": "asked: ", "passage": "given: "})
    params = PretrainParams(size="22m", device="cpu", views=views, cloze_from=["passages"])
    blocks = list(training_rows(pairs, [cloze], params, layout))
    data = tokenized(
        Examples(lambda: blocks), load(tiny_bert).tokens, tmp_path, max_query_length=64, max_passage_length=64
    )
    made = [row for rows in blocks for row in rows.to_pylist()]
    text_of = {int(number): row["positive"] for number, row in zip(data.positive_of, made, strict=True)}
    group, met = make_group(np.arange(len(made)), data, in_batch=True), 0
    for row, candidates, positive in zip(made, group.candidates, group.positives, strict=True):
        words = row["query"].removeprefix("asked: ")
        against = [text_of[int(group.passages[at])] for at in np.flatnonzero(candidates) if at != positive]
        met += sum(words in text for text in text_of.values())
        assert not [text for text in against if words in text], words
        own = {f"given: {text}" for one, text in enumerate(CUT) if words == f"query {one}"}
        assert own.isdisjoint(against), "the passage that a query is from"
        assert len(against) >= len(text_of) // 2, "those of the other passage are negatives"
    assert met > len(CUT), "they do meet"


@pytest.mark.parametrize(("size", "temperature"), [("33m", 0.01), ("22m", 0.02)])
def test_a_pre_trained_folder_with_instructions_that_it_never_saw(store, tmp_path, size, temperature):
    fetch(backbone(size), settings().cache)
    made = go(store, pretrain, size=size, **SHORT)
    version = Version.open(store, made.ref)
    folder = version.lay_out(tmp_path / "out")
    assert layout_of_folder(folder).prefixes == {"passage": ""}
    assert "Neither queries nor passages take a prompt." in (folder / "README.md").read_text()
    shown = version.manifest.params
    of_size = get_size(size).pretrain
    assert (shown["learning_rate"], shown["temperature"]) == (of_size.learning_rate, temperature)
    assert (shown["batch_size"], shown["precision"]) == (8, "fp32")
    assert shown["reset_layers"] == {"33m": 9, "22m": 0}[size]


def test_a_finished_embedder_that_training_only_hurts_comes_back_as_it_was(store, tmp_path):
    spec = backbone("22m")
    fetch(spec, settings().cache)
    right = [pair(i, text, "dev") for i, text in enumerate(TEXTS)]
    texts = [*TEXTS[1:], TEXTS[0]]
    wrong = [
        pair(i, text, "train") | {"query": row["query"]} for i, (text, row) in enumerate(zip(texts, right, strict=True))
    ]
    for row in wrong:
        row["passage_id"] = f"wrong-{row['passage_id']}"
    put(store, PAIRS, wrong + right, dataset="mtp")
    made = go(store, pretrain, size="22m", learning_rate=0.03, epochs=2, **SHORT)
    assert made.counters["best_step"] == 0
    folder = Version.open(store, made.ref).lay_out(tmp_path / "out")
    assert layout_of_folder(folder).max_length == spec.max_length
    ours = load_encoder(folder, tmp_path, threads=1).encode_passages(TEXTS)
    np.testing.assert_allclose(ours, open_encoder(spec.name).encode_passages(TEXTS), atol=1e-5)


def test_what_was_written_for_a_development_query_is_no_wrong_answer_of_it(store, tiny_bert, tmp_path) -> None:
    asked = [pair(i, text, "dev") | {"intent": "qa" if i else "nli"} for i, text in enumerate(TEXTS)]
    put(store, PAIRS, asked, dataset="mtp")
    dev = dev_set(Version.open(store, Ref.parse("mtp")), Layout("mean", 16, prefixes={"passage": "p: "}))
    rows = tokenized(dev, load(tiny_bert).tokens, tmp_path, max_query_length=16, max_passage_length=16)
    made = [row for block in dev.blocks() for row in block.to_pylist()]
    number = {row["positive"]: int(at) for row, at in zip(made, rows.positive_of, strict=True)}
    assert len(rows.passages) == 2 * len(TEXTS), "sources and what was written"
    assert [rows.sources[number] for number in rows.source_of] == ["nli", "qa", "qa", "qa"], "by which it is scored"
    for row, query, text in zip(made, rows.query_of, TEXTS, strict=True):
        assert row["positive"] == f"p: {text}" and row["answers"][-1] == f"p: about {text}"
        (other,) = set(rows.answers[query].tolist()) - {number[row["positive"]]}
        assert other not in number.values()


def test_a_model_to_go_on_from_keeps_its_top_layers(store, tmp_path, caplog):
    fetch(backbone("22m"), settings().cache)
    begun = go(store, pretrain, size="22m", **SHORT)
    hardly = {"learning_rate": 1e-12, "weight_decay": 0, "reset_layers": 2}
    with caplog.at_level(logging.INFO, "pipeline_tasks.training.pretrain"):
        made = go(store, pretrain, {"init": [str(begun.ref)]}, size="22m", **SHORT | hardly)
    assert "reset_layers=2 is for a backbone: a model to start from keeps its layers" in caplog.messages
    before, after = (
        load_encoder(Version.open(store, ref).lay_out(tmp_path / ref.version), tmp_path, threads=1)
        for ref in (begun.ref, made.ref)
    )
    np.testing.assert_allclose(after.encode_passages(TEXTS), before.encode_passages(TEXTS), atol=1e-5)


def test_fine_tuning_goes_on_from_a_finished_embedder(store, tmp_path):
    fetch(backbone("22m"), settings().cache)
    begun = go(store, pretrain, size="22m", **SHORT)
    triplets = [
        {"query_id": row["query_id"], "intent": "qa", "query": row["query"], "split": "train"}
        | {"positive_id": row["passage_id"], "positive": row["passage"]}
        | {"negative_ids": [f"p{(i + 1) % len(TEXTS)}"], "negatives": [TEXTS[(i + 1) % len(TEXTS)]]}
        for i, row in enumerate(pair(i, text, "train") for i, text in enumerate(TEXTS))
    ]
    put(store, TRIPLETS, triplets, dataset="mtt/0.95")
    made = go(store, finetune, {"init": [str(begun.ref)]}, size="22m", alpha=0.95, **SHORT | {"max_query_length": 32})
    assert made.ref.dataset == "model/22m/finetune"
    assert Version.open(store, made.ref).manifest.params["temperature"] == 0.02


@pytest.mark.parametrize("given", [[], [pair(0, TEXTS[0], "dev")]])
def test_an_empty_build_is_refused_with_what_fills_it(store, tiny_bert, given):
    build = put(store, PAIRS, given, dataset="mtp")
    with pytest.raises(InputError, match=f"^{build} has no training pairs; sample more passages in write_needs$"):
        go(store, pretrain, size="22m", backbone=str(tiny_bert), **SHORT)


def test_an_encoder_cannot_stay_causal():
    with pytest.raises(InputError, match="size='22m' has an encoder, which always attends both ways"):
        pretrain.parse({"size": "22m", "causal": "true"})
    assert pretrain.parse({"size": "596m", "causal": "true"}).causal
    assert pretrain.parse({"size": "22m", "causal": "true", "start_from": ["model/596m/pretrain"]}).causal
