"""Under a query stand the texts of the corpus that was ranked."""

from __future__ import annotations

from pipeline_tasks import datasets as d
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import manifest_key
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.sections.queries import query_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import row
from tests.stores import put


def shown(store: LocalStore, evaluated: Ref) -> set[str]:
    """The texts of all passages under all queries."""
    with lineage(store) as ask:
        groups = query_section(store, ask, read(ask, str(evaluated)), "bm25").queries
    return {p.text for _, queries in groups for query in queries for p in query.passages}


def evaluate(store: LocalStore, passages: Ref, name: str, score: float = 0.5) -> Ref:
    """Two queries, for which the passage 1 was found."""
    rows = [row("bm25", "", i, score) | {"passage_ids": ["1"], "grades": [1]} for i in range(2)]
    return put(store, d.EVALUATIONS, rows, dataset=f"eval/{name}", passages=passages)


def corpus(store: LocalStore, name: str, text: str) -> Ref:
    return put(store, d.PASSAGES, [{"passage_id": "1", "text": text}], dataset=f"corpus/{name}")


def test_a_passage_is_that_of_the_corpus_that_was_ranked_where_another_has_its_id(tmp_path):
    store = LocalStore(tmp_path)
    evaluated = {name: evaluate(store, corpus(store, name, f"of {name}"), name) for name in ("one", "other")}
    for name, ref in evaluated.items():
        assert shown(store, ref) == {f"of {name}"}


def test_a_passage_is_that_of_the_version_that_was_ranked(tmp_path):
    store = LocalStore(tmp_path)
    before = corpus(store, "mine", "as it was")
    first = evaluate(store, before, "mine")
    second = evaluate(store, corpus(store, "mine", "as it is"), "mine", 0.6)
    assert (shown(store, first), shown(store, second)) == ({"as it was"}, {"as it is"})
    store.delete(manifest_key(before))
    assert (shown(store, first), shown(store, second)) == ({""}, {"as it is"}), "what is gone has no text"
