"""A training on written, general and own pairs: every origin is in the lineage of the model, and in its card."""

from __future__ import annotations

from pipeline_tasks.core.lineage import fold, query
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.evaluation.model_card import facts_of
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
from pipeline_tasks.synthesis.read_general_pairs import read_general_pairs
from pipeline_tasks.synthesis.read_pairs import read_pairs
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put, rows
from tests.synthesis.general_files import N, columns, lines

SMALL = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}
ORIGINS = {"dm", "gd/altlex", "gd/squad", "faq"}
MADE_FROM = """SELECT DISTINCT ancestor_dataset FROM ancestors
               WHERE descendant_dataset = 'model/22m/pretrain' ORDER BY ancestor_dataset"""


def written(number: int) -> dict:
    ids = {"query_id": f"q{number}", "passage_id": f"p{number}", "doc_id": "d", "positive_id": f"g{number}"}
    texts = {"query": f"flood no{number}", "passage": f"levee no{number}", "positive": f"flood and levee no{number}"}
    return ids | texts | {"intent": "qa", "origin": "dm", "split": "train" if number < N else "dev"}


def test_each_origin_is_in_the_lineage_of_a_model_that_learned_from_all(tmp_path):
    store = LocalStore(tmp_path / "store")
    pairs = [written(i) for i in range(N + 2)]
    put(store, PAIRS, pairs, dataset="mtp/dm")
    columns(tmp_path / "gd" / "squad" / "pair" / "train-0.parquet", "squad", "question", "answer")
    columns(tmp_path / "gd" / "altlex" / "pair" / "train-0.parquet", "altlex", "text", "simplified")
    own = [{"query": f"alarm no{i}", "positive": f"siren no{i}"} for i in range(N)]
    lines(tmp_path / "faq.jsonl", own)
    go(store, read_general_pairs, source=str(tmp_path / "gd"))
    go(store, read_pairs, name="faq", source=str(tmp_path / "faq.jsonl"), dev_fraction=0)
    go(store, combine_pairs, own=("faq",))
    go(store, decontaminate_pairs, questions=False, max_contaminated=1)
    assert {row["origin"] for row in rows(store, "mtp")} == ORIGINS
    made = go(store, pretrain, backbone=str(shapes.make("bert", tmp_path / "bert")), **SMALL)
    fold(store)
    assert [row["ancestor_dataset"] for row in query(store, MADE_FROM).to_pylist()] == [
        "mtp", "mtp/combined", "mtp/dm", "mtp/gd", "mtp/own/faq",
    ]  # fmt: skip
    (told,) = facts_of(Version.open(store, made.ref))["Data"].values()
    assert all(f"{origin} {N}" in told for origin in ORIGINS), told
