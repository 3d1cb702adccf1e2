"""Under a query stand the texts of the corpus that was ranked."""

from __future__ import annotations

from pipeline_tasks import datasets as d
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.sections.queries import query_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import row
from tests.stores import put


def test_a_passage_is_that_of_the_corpus_that_was_ranked_where_another_has_its_id(tmp_path):
    store, evaluated = LocalStore(tmp_path), {}
    for name in ("one", "other"):
        passages = put(store, d.PASSAGES, [{"passage_id": "1", "text": f"of {name}"}], dataset=f"corpus/{name}")
        rows = [row("bm25", "", i, 0.5) | {"passage_ids": ["1"], "grades": [1]} for i in range(2)]
        evaluated[name] = put(store, d.EVALUATIONS, rows, dataset=f"eval/{name}", passages=passages)
    with lineage(store) as ask:
        for name, ref in evaluated.items():
            groups = query_section(ask, read(ask, str(ref)), "bm25").queries
            assert {p.text for _, queries in groups for query in queries for p in query.passages} == {f"of {name}"}
