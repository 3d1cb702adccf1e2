"""Distillation as a step: the student follows a teacher where the labels say nothing."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import SCORED_TRIPLETS, TRIPLETS
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.distill import distill
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.triplets import prompts
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

SMALL = {"max_query_length": 32, "max_passage_length": 32, "batch_size": 8, "evals_per_epoch": 1, "device": "cpu"}
LEARNING = SMALL | {"learning_rate": 3e-3, "temperature": 0.1, "epochs": 6, "pool_instruction": False}
PURE = '{"name": "kl_distillation", "hard": null}'


def triplet(topic: int, split: str, *, named: int) -> dict:
    """A query that the labels answer with passage ``named``, and its teacher, rightly, with the one of its topic."""
    others = [n % len(TOPICS) for n in range(topic, topic + 6) if n % len(TOPICS) != named]
    return {
        "query_id": f"q{topic}-{split}",
        "intent": "qa",
        "query": query(topic),
        "positive_id": f"p{named}",
        "positive": passage(named),
        "negative_ids": [f"p{n}" for n in others],
        "negatives": [passage(n) for n in others],
        "split": split,
        "teacher": "one",
        "teacher_positive_score": 0.9 if named == topic else 0.1,
        "teacher_negative_scores": [0.9 if n == topic else 0.1 for n in others],
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory, tiny_bert) -> LocalStore:
    """A model, and a build whose labels are wrong and whose teacher is right; 0.5 has scores of the teacher alone."""
    store = LocalStore(tmp_path_factory.mktemp("store"))
    start = tmp_path_factory.mktemp("start")
    export(load(tiny_bert), start, card={}, layout=Layout("mean", 32))
    put_model(store, start, "model/33m/finetune")
    topics = range(len(TOPICS))
    train = [triplet(topic, "train", named=(topic + 1) % len(TOPICS)) for topic in topics]
    dev = [triplet(topic, "dev", named=topic) for topic in topics]
    put(store, SCORED_TRIPLETS, train + dev, dataset="mtt/0.95-kd")
    columns = {column.name for column in TRIPLETS.columns}
    put(store, TRIPLETS, [{k: v for k, v in row.items() if k in columns} for row in train], dataset="mtt/0.95")
    return store


def test_the_student_learns_from_the_teacher_what_the_labels_have_wrong(store, tmp_path):
    taught = go(store, distill, **LEARNING, objective=PURE)
    labels = go(store, distill, **LEARNING, objective="info_nce")
    scores = [made.counters["dev_ndcg_at_10"] for made in (taught, labels)]
    assert scores[0] > max(scores[1], taught.counters["dev_ndcg_at_10_of_start"]) + 0.2
    folder = Version.open(store, taught.ref).lay_out(tmp_path / "out")
    assert layout_of_folder(folder).prefixes == prompts() | {"passage": ""}
    assert taught.ref.dataset == "model/33m/distill"


@pytest.mark.parametrize(("n_negatives", "used"), [(None, 5), (2, 2)])
def test_a_teachers_scores_are_cut_with_the_negatives(store, n_negatives, used):
    made = go(store, distill, **SMALL, n_negatives=n_negatives)
    assert made.counters["negatives"] == used * len(TOPICS)


def test_triplets_that_no_teacher_scored_are_refused(store):
    with pytest.raises(InputError, match="mtt/0.95"):
        plan(store, distill, {}, {"triplets": ["mtt/0.95"]})


def test_by_default_it_is_the_papers_and_the_id_says_so(store):
    shown = json.loads(json.dumps(plan(store, distill, {"device": "cpu"}).identity))
    assert (shown["learning_rate"], shown["batch_size"], shown["alpha"]) == (4e-5, 1024, 0.95)
    objective = shown["objective"]
    assert (objective["name"], objective["weight"], objective["hard"]["name"]) == ("kl_distillation", 1.0, "info_nce")
