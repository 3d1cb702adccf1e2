"""Of a version that was dropped and made again the lineage tells what its last build counted."""

from __future__ import annotations

import pytest

from pipeline_tasks.cli.evaluate import _left_out
from pipeline_tasks.core.lineage.detail import detail
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import JUDGED_QUERIES
from pipeline_tasks.evaluation.geometry import Geometry
from pipeline_tasks.report.evaluations import geometries
from pipeline_tasks.report.subject import lineage
from tests.stores import note_run, put


@pytest.mark.parametrize("of_last", [None, {"parts_reused": 1, "rows_built": 0, "rows_in": 3}])
def test_the_last_build_that_had_something_to_do_counts_and_what_was_done_for_it_since_the_one_before(
    tmp_path, of_last
):
    store = LocalStore(tmp_path)
    ref = put(store, JUDGED_QUERIES, [{"query_id": "q"}], dataset="judged/mine")
    for kind, counters in (
        ("FAIL", {"tokens": 1}),
        ("COMPLETE", {"tokens": 2, "score": 0.9, "of_the_dropped": 1, "rows_in": 3}),
        ("FAIL", {"tokens": 4, "rows_in": 3}),
        ("COMPLETE", {"tokens": 8, "score": 0.5, "rows_in": 3}),
    ):
        note_run(store, ref, counters, kind=kind)
    note_run(store, ref, {"tokens": 16, "score": 0.7}, reused=True)
    if of_last:
        note_run(store, ref, of_last)
    found = {row["name"]: row["value"] for row in detail(Reader(store), ref)["counters"]}
    assert found == {"tokens": 12, "score": 0.5, "rows_in": 3}


def test_what_an_evaluation_says_of_a_set_or_of_an_embedder_is_of_the_last_build(tmp_path):
    store = LocalStore(tmp_path)
    ref = put(store, JUDGED_QUERIES, [{"query_id": "q"}], dataset="judged/mine")
    for value in (1, 3, 2):
        of_embedder = {f"{name}/bm25": value for name in Geometry._fields}
        note_run(store, ref, {"queries_unjudged": value, **of_embedder})
    assert list(_left_out(store, {"queries": [str(ref)], "passages": []})) == [
        "left out of judged/mine: queries_unjudged 2"
    ]
    with lineage(store) as ask:
        assert geometries(ask, str(ref)) == {"bm25": Geometry(2, 2, 2)}
