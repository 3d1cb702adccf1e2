"""The card of a model that leaves the store says where it came from, what it learned from, and how it scored."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.lineage import fold
from pipeline_tasks.core.markdown import sections
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PAIRS, RANK_LISTS, TRIPLETS, TUPLES
from pipeline_tasks.evaluation.model_card import _composition, facts_of
from pipeline_tasks.training.average_models import average_models
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put

SMALL = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}


def pair(name: str, split: str, origin: str) -> dict:
    texts = {"query": f"t{name}", "passage": f"t{name} wa", "positive": f"wb t{name}"}
    return {"query_id": name, "passage_id": name, "intent": "qa", "split": split, "origin": origin} | texts


def scored(model: object, query_id: str, intent: str, value: float) -> dict:
    row = {
        "evaluation_id": query_id,
        "query_id": query_id,
        "system": "s",
        "model_version": str(model),
        "intent": intent,
    }
    return row | {"scores": [("ndcg@10", value)]}


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A tuned model, that it came from, and what both read."""
    root = tmp_path_factory.mktemp("card")
    store = LocalStore(root / "store")
    rows = [pair("a", "train", "dm"), pair("b", "train", "dm"), pair("c", "train", "gd"), pair("d", "dev", "dm")]
    pairs = put(store, PAIRS, rows, dataset="mtp")
    triplet = {"query_id": "a", "positive_id": "a", "positive": "ta wa", "negative_ids": ["b"], "negatives": ["tb"]}
    triplets = put(store, TRIPLETS, [triplet | {"intent": "qa", "query": "ta", "split": "train"}], dataset="mtt/0.95")
    folder = shapes.make("bert", root / "mine")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    begun = go(store, pretrain, backbone=str(folder), **SMALL).ref
    tuned = go(store, finetune, {"init": [str(begun)]}, alpha=0.95, **SMALL).ref
    put(
        store,
        EVALUATIONS,
        [scored(tuned, "q1", "qa", 0.6), scored(tuned, "q2", "qa", 0.8), scored(tuned, "q3", "nli", 0.3)],
        dataset="eval/a",
    )
    fold(store)
    return store, pairs, triplets, begun, tuned


def test_lineage_data_licences_and_scores(chain):
    store, pairs, triplets, begun, tuned = chain
    found = facts_of(Version.open(store, tuned))
    assert found["Lineage"] == {
        str(tuned): f"finetune v{finetune.version} from init={begun}, triplets={triplets}",
        str(begun): f"pretrain v{pretrain.version} from pairs={pairs}",
    }
    assert found["Data"] == {str(triplets): "train 1 (qa 1)", str(pairs): "train 3 (dm 2, gd 1); dev 1 (dm 1)"}
    ((name, licence),) = found["Licences"].items()
    assert name.startswith("folder-") and licence == "mit"
    assert found["Scores"] == {"eval/a, ndcg@10": "0.5000 (3 queries)"}
    text = sections(found)
    assert (
        text.startswith("\n## Lineage\n\n|  |  |\n|---|---|\n") and "| eval/a, ndcg@10 | 0.5000 (3 queries) |" in text
    )


def test_a_mean_and_what_went_on_from_it_learned_what_its_members_learned(chain):
    store, pairs, _, begun, _ = chain
    folder = store.root.parent / "mine"
    other = go(store, pretrain, backbone=str(folder), seed=1, **SMALL).ref
    members = [str(begun), str(other)]
    mean = go(store, average_models, {"models": members}, size="22m", models=tuple(members)).ref
    after = go(store, pretrain, {"init": [str(mean)]}, seed=2, **SMALL).ref
    for model, before in ((mean, []), (after, [str(after)])):
        found = facts_of(Version.open(store, model))
        assert list(found["Lineage"]) == [*before, str(mean), *members]
        assert found["Data"] == {str(pairs): "train 3 (dm 2, gd 1); dev 1 (dm 1)"}


def test_what_has_no_scores_has_no_section_of_them_and_what_is_gone_is_said(chain):
    store, pairs, _, begun, _ = chain
    version = Version.open(store, begun)
    assert "## Scores" not in sections(facts_of(version))
    (store.root / "versions" / "mtp" / f"{pairs.version}.json").unlink()
    assert facts_of(version)["Data"] == {str(pairs): "not in the store any more"}


def test_what_a_model_learned_from_is_counted_whatever_it_is(tmp_path):
    store = LocalStore(tmp_path)
    known = {"query_id": "a", "intent": "qa", "split": "train"}
    tuples = put(store, TUPLES, [known, {"query_id": "b"}], dataset="tuples/checked")
    lists = put(store, RANK_LISTS, [known], dataset="rank_lists")
    judged = put(store, JUDGED_QUERIES, [{"query_id": "a"}], dataset="judged/mine")
    told = [_composition(store, ref) for ref in (tuples, lists, judged)]
    assert told == ["train 1 (qa 1); of no split 1", "train 1 (qa 1)", "1 rows of judged_queries"]
