"""mteb scores our sets with our models as we do."""

from __future__ import annotations

import mteb
import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.mteb_task import model_of, task_of
from pipeline_tasks.evaluation.scores import scores_of
from pipeline_tasks.training.export import export
from tests import shapes
from tests.stores import go, put
from tests.training.made import put_model

MODEL = "model/22m/finetune"


def test_mteb_finds_the_scores_that_we_find(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()
    store = LocalStore(tmp_path / "store")
    words = [*shapes.TOPICS, *shapes.FILLERS]
    texts = [f"{words[i % 36]} {words[(7 * i + 3) % 36]} {words[(5 * i + 1) % 36]}" for i in range(36)]
    passages = put(
        store, PASSAGES, [{"passage_id": f"p{i}", "text": text} for i, text in enumerate(texts)], dataset="corpus/mine"
    )
    judged = [
        {
            "query_id": f"q{i}",
            "intent": "any",
            "query": f"{words[i]} {words[i + 9]}",
            "passage_ids": [f"p{i}", f"p{i + 9}"],
            "grades": [2, 1],
        }
        for i in range(20)
    ]
    put(store, JUDGED_QUERIES, judged, dataset="judged/mine", passages=passages)
    layout = Layout("mean", 32, prefixes={"query": "wa "})
    export(load(shapes.make("bert", tmp_path / "plain")), tmp_path / "m", card={"name": "Tiny"}, layout=layout)
    put_model(store, tmp_path / "m", MODEL)
    given = {"passages": [str(passages)], "models": [MODEL]}
    alone = {"set_name": "mine", "size": "", "models": (), "systems": ()}
    version = Version.open(store, go(store, evaluate_retriever, given, **alone).ref)
    found = mteb.evaluate(model_of(store, MODEL), [task_of(store, "mine")], cache=None, show_progress_bar=False)
    theirs = found.task_results[0].scores["test"][0]
    for measure in ("ndcg@10", "map@10", "mrr@10", "recall@10"):
        (ours,) = (found := scores_of(version, measure)).by_system
        assert theirs[measure.replace("@", "_at_")] == pytest.approx(found.score(ours).mean, abs=1e-5), (
            "mteb rounds to five digits"
        )
    assert 0 < theirs["main_score"] < 1
    settings.cache_clear()
