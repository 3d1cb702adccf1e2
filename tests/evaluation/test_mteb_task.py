"""mteb scores our sets with our models as we do."""

from __future__ import annotations

from pathlib import Path

import mteb
import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version, manifest_key
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.mteb_task import model_of, task_of
from pipeline_tasks.evaluation.scores import scores_of
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.stores import go, put, rows
from tests.training.made import put_model

MODEL = "model/22m/finetune"


WORDS = [*shapes.TOPICS, *shapes.FILLERS]


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()


@pytest.fixture
def passages(store):
    texts = [f"{WORDS[i % 36]} {WORDS[(7 * i + 3) % 36]} {WORDS[(5 * i + 1) % 36]}" for i in range(36)]
    rows = [{"passage_id": f"p{i}", "text": text} for i, text in enumerate(texts)]
    return put(store, PASSAGES, rows, dataset="corpus/mine")


def judge(store, passages, step: int, answered: int = 20, own: bool = False) -> None:
    """The set ``mine``: of 20 queries the first have two relevant passages each, ``step`` apart, and others none.

    With ``own`` each query is a passage itself, and that is not judged for it.
    """
    texts = {row["passage_id"]: row["text"] for row in rows(store, "corpus/mine")}
    judged = [
        {
            "query_id": f"p{i}" if own else f"q{i}",
            "intent": "any",
            "query": texts[f"p{i}"] if own else f"{WORDS[i]} {WORDS[i + 9]}",
            "passage_ids": [f"p{i + own}", f"p{i + step}"],
            "grades": [2, 1] if i < answered else [0, 0],
        }
        for i in range(20)
    ]
    put(store, JUDGED_QUERIES, judged, dataset="judged/mine", passages=passages)


def made(folder, prefix: str = "wa ", card: str = "Tiny"):
    """A model's folder that says what goes before a query."""
    layout = Layout("mean", 32, prefixes={"query": prefix})
    export(load(shapes.make("bert", folder.parent / "plain")), folder, card={"name": card}, layout=layout)
    return folder


@pytest.mark.parametrize(("answered", "own"), [(20, False), (15, False), (20, True)])
def test_mteb_finds_the_scores_that_we_find(tmp_path, store, passages, answered, own):
    judge(store, passages, 9, answered, own)
    put_model(store, made(tmp_path / "m"), MODEL)
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


def test_results_that_mteb_has_filed_are_of_this_model_and_this_set(tmp_path, store, passages):
    """mteb's own files, by model, revision and task; one whose name changes is scored, one that is there is read.

    A version that was dropped and trained again with other weights is another model.
    """
    kept = mteb.ResultCache(tmp_path / "mteb")

    def filed(name: str) -> tuple[float, float]:
        """The main score as it is filed, and as it is without files."""
        model, task = model_of(store, name), task_of(store, "mine")
        runs = [mteb.evaluate(model, [task], cache=cache, show_progress_bar=False) for cache in (kept, None)]
        read, scored = (run.task_results[0].scores["test"][0]["main_score"] for run in runs)
        return read, scored

    one, other = (str(made(tmp_path / side / "m", prefix)) for side, prefix in (("a", "wa "), ("b", "mo ka ")))
    judge(store, passages, 9)
    first, second = filed(one), filed(other)
    judge(store, passages, 11)
    again = filed(one)
    for read, scored in (first, second, again):
        assert read == scored
    assert len({first, second, again}) == 3, "a result that was taken for another would not be seen"
    files = [*(tmp_path / "mteb" / "results").rglob("mine@*.json")]
    assert len(files) == 3 and len({path.parent for path in files}) == 2
    before = {path: path.stat().st_mtime_ns for path in files}
    filed(one)
    assert {path: path.stat().st_mtime_ns for path in files} == before, "what is filed is read"
    ref = put_model(store, Path(one), MODEL)
    dropped = filed(MODEL)
    store.delete(manifest_key(ref))
    assert put_model(store, Path(other), MODEL) == ref
    read, scored = filed(MODEL)
    assert read == scored and dropped == again != (read, scored)
