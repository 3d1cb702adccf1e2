"""How embedders lay out queries and passages: a point for each that was measured."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import resolve
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.geometry import Geometry
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.report.content import DESK, PHONE
from pipeline_tasks.report.evaluations import geometries, read
from pipeline_tasks.report.sections.geometry import drawn, geometry_section
from pipeline_tasks.report.subject import Ask, lineage
from tests import shapes
from tests.stores import go, put


def judged(store: LocalStore, ask: Ask) -> Scores:
    """The last evaluation of the store that is only read."""
    return read(ask, str(resolve(store, Ref.parse("eval/judged"))))


def test_an_embedder_has_alignment_and_uniformity_and_bm25_has_none(tmp_path):
    store = LocalStore(tmp_path / "store")
    words = shapes.TOPICS[:4]
    put(store, PASSAGES, [{"passage_id": f"p{word}", "text": f"{word} wa"} for word in words])
    judged = {"intent": "qa", "grades": [1]}
    rows = [judged | {"query_id": word, "query": f"{word} wa", "passage_ids": [f"p{word}"]} for word in words]
    put(store, JUDGED_QUERIES, rows, dataset="judged/heldout")
    own = str(shapes.make("bert", tmp_path / "mine"))
    made = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=("bm25", own, f"rrf(bm25,{own})"))
    alignment, share = (made.counters[f"{name}/{own}"] for name in ("alignment", "normalised_alignment"))
    assert (alignment, share) == pytest.approx((0, 1), abs=1e-6), "equal texts"
    with lineage(store) as ask:
        found = geometries(ask, str(made.ref))
        section = geometry_section(ask, read(ask, str(made.ref)), own)
    assert found.keys() == {own} and found[own].uniformity > 0
    assert section.table.head[:4] == ("system", "alignment", "over nearest", "uniformity")
    (row,) = section.table.rows
    assert row[:4] == (own, "0.000", "1.000", f"{found[own].uniformity:.3f}"), "BM25 and fusions have no vectors"
    again = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=(own,), measures=("hit@4",))
    assert again.counters[f"uniformity/{own}"] == made.counters[f"uniformity/{own}"], "what is remembered is told again"


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_what_is_nearer_and_more_even_is_up_and_to_the_right_and_has_its_name(built, width):
    found = {"33m/untrained": Geometry(0.5, 1.4, 1.2), "33m/finetune-0.75": Geometry(0.4, 1.2, 1.9)}
    with lineage(built[0]) as ask:
        (panel,) = drawn(judged(built[0], ask), found, "33m/finetune-0.75", width).axes
    (start, now) = (panel.transData.transform(line.get_xydata()[0]) for line in panel.lines)
    assert (now > start).all()
    named = {text.get_text(): text.xy for text in panel.texts if text.get_text() in found}
    assert named == {"33m/untrained": (1.2, 1.4), "33m/finetune-0.75": (1.9, 1.2)}


def test_an_evaluation_from_before_has_no_layout(built):
    with lineage(built[0]) as ask:
        assert geometry_section(ask, judged(built[0], ask), "33m/finetune-0.75") is None


def test_a_name_that_would_cover_another_is_left_out_but_for_the_subjects(built):
    names = [f"33m/a-long-name-of-a-version-{n}" for n in range(12)]
    found = {name: Geometry(0.5, 1.4 + n / 1e4, 1.2 + n / 1e4) for n, name in enumerate(names)}
    with lineage(built[0]) as ask:
        (panel,) = drawn(judged(built[0], ask), found, names[7], PHONE).axes
    shown = [text.get_text() for text in panel.texts if text.get_text() in found]
    assert names[7] in shown and len(shown) < len(names)
