"""A model that is trained again without a document has none of the scores of the one that was dropped."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.model_card import facts_of
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put

SMALL = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}
ERASED = "0123456789abcdef"


def test_a_model_trained_again_has_no_score_of_the_dropped_one(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "store")
    texts = {name: f"t{name} wa wb" for name in "abcdef"}
    pairs = [
        {"query_id": name, "passage_id": name, "doc_id": ERASED if name == "a" else f"d{name}", "intent": "qa"}
        | {"query": f"t{name}", "passage": text, "positive": text, "split": "dev" if name == "f" else "train"}
        for name, text in texts.items()
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    put(store, PASSAGES, [{"passage_id": name, "doc_id": f"d{name}", "text": text} for name, text in texts.items()])
    judged = {"query_id": "q", "query": "tb", "intent": "qa", "passage_ids": ["b"], "grades": [1]}
    put(store, JUDGED_QUERIES, [judged], dataset="judged/heldout")
    start = str(shapes.make("bert", tmp_path / "start"))

    def trained():
        return go(store, pretrain, backbone=start, **SMALL).ref

    def evaluated():
        return go(store, evaluate_retriever, {"models": [str(trained())]}, size="", models=(), systems=("bm25",))

    before, first = load_manifest(store, trained()), evaluated()
    assert evaluated().reused and facts_of(Version(store, before))["Scores"]
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    erased = CliRunner().invoke(app, ["erase", ERASED, "--drop-models"])
    assert erased.exit_code == 0
    with pytest.raises(InputError, match="is not in the store"):
        load_manifest(store, first.ref)
    command = next(line for line in erased.stdout.splitlines() if line.startswith(str(before.ref))).split(": ", 1)[1]
    typed = shlex.split(command.replace("FOLDER", start), comments=True)
    assert CliRunner().invoke(app, typed[1:]).exit_code == 0
    after = load_manifest(store, before.ref)
    assert after.learned_from and not before.learned_from
    assert after.ref == before.ref and after.parts != before.parts
    assert facts_of(Version(store, after))["Scores"] == {}
    again = evaluated()
    assert again.ref == first.ref and not again.reused
    assert again.counters["texts_encoded"] == first.counters["texts_encoded"] - 1, (
        "a passage is gone, and no vector stays"
    )
    assert facts_of(Version(store, after))["Scores"]
    other = CliRunner().invoke(app, ["erase", ERASED[::-1], "--drop-models"])
    assert other.exit_code == 0 and "dropped" not in other.stdout
    assert evaluated().reused, "what was trained without the first document is nothing that a second erasure drops"


def test_nothing_but_pools_is_made_of_rows_that_models_made():
    """An erasure drops rows that a dropped model made, and nothing that is made of them: a pool holds passages."""
    steps = list(map(get_step, step_names()))
    made = {step.writes for step in steps if step.writes and not all(read.schema for read in step.reads.values())}
    readers = {step.name for step in steps for read in step.reads.values() if read.schema in made}
    assert (made, readers) == ({EVALUATIONS}, {"pool_passages"})


def test_an_evaluation_is_told_as_it_was_asked_for():
    asked = {"size": "", "models": (), "systems": ("bm25", "rrf(bm25,33m/pretrain)"), "measures": ("ndcg@5",)}
    made = evaluate_retriever.parse(asked)
    assert evaluate_retriever.parse(made.from_identity(made.identity())) == made
    assert made.from_identity({"size": "33m"}) == {"size": "33m", "systems": []}, "of a release that named no systems"
