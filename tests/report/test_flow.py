"""The flow from addresses to triplets tells of the rows behind a model, each once."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.report.sections.costs import cost_section
from pipeline_tasks.report.sections.flow import flow_section, read
from pipeline_tasks.report.subject import lineage
from tests.core.lineage import toy
from tests.stores import note_run

MODEL = "model/33m/finetune"


@pytest.fixture
def refreshed(tmp_path) -> LocalStore:
    """Addresses that grew twice before anything was made of them, and a model of the last."""
    store = LocalStore(tmp_path)
    toy.corpus(store, "a", "b")
    toy.corpus(store, "a", "b", "bad", "c")
    toy.chain(store, "a", "b", "bad", "c", "d", "e")
    return store


def test_earlier_refreshes_are_no_steps_of_the_flow(refreshed):
    ref = str(load_manifest(refreshed, Ref.parse(MODEL)).ref)
    with lineage(refreshed) as ask:
        stages, section = read(ask, ref), flow_section(ask, ref)
    assert [(s.n_seen, s.n_kept) for s in stages if s.dataset == "urls"] == [(6, 6)]
    assert [(s.dataset, s.n_refused) for s in stages if s.n_refused] == [
        ("documents", 1),
        ("distinct_documents", 1),
        ("labelled", 1),
    ]
    assert "from 6 addresses to 4 queries; 3 rows were refused" in section.words[0]


def test_the_runs_that_a_dataset_grew_by_are_part_of_its_cost(refreshed):
    ref = str(load_manifest(refreshed, Ref.parse(MODEL)).ref)
    with lineage(refreshed) as ask:
        runs = {row[0]: row[1] for row in cost_section(ask, ref).table.rows}
    assert (runs["toy_urls"], runs["toy_documents"]) == ("3", "1")


def test_what_the_last_build_did_not_sample_counts(refreshed):
    for value in (7, 2):
        note_run(refreshed, load_manifest(refreshed, Ref.parse("labelled")).ref, {"not_sampled": value})
    with lineage(refreshed) as ask:
        stages = read(ask, str(load_manifest(refreshed, Ref.parse(MODEL)).ref))
    assert [stage.n_not_sampled for stage in stages if stage.dataset == "labelled"] == [2]
