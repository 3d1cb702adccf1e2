"""What a report says of positives that a language model chose."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, LABELLED, RELABELLED, TRIPLETS
from pipeline_tasks.report.sections.relabelling import relabelling_section
from pipeline_tasks.report.subject import lineage
from tests.stores import put


def test_what_was_changed_is_counted_and_shown_beside_what_was_there(tmp_path):
    store = LocalStore(tmp_path)
    texts = {"passage_ids": ["a", "b"], "passages": ["the better one", "the seed"], "split": "train"}
    rows = [
        {"query_id": f"q{n}", "query": f"query {n}", "instruction": f"task {n % 2}"}
        | ({"source_passage_id": "b", "source_rank": 2} if n == 3 else {"source_passage_id": "a", "source_rank": 1})
        for n in range(4)
    ]
    rows[2] |= {"source_rank": 2}  # what was before it was erased
    graded = put(store, RELABELLED, [row | texts for row in rows], dataset="relabelled/graded")
    put(store, RELABELLED, [row | texts for row in rows], dataset="relabelled")
    put(store, LABELLED, [{"query_id": "q0", "positive_id": "a"}])  # nobody knows of what origin
    built = put(store, TRIPLETS, [{"query_id": "q0", "split": "train"}], dataset="mtt/fret", relabelled=graded)
    with lineage(store) as ask:
        section = relabelling_section(ask, str(built))
        assert relabelling_section(ask, str(graded)) is None
    assert section.words[0].startswith("relabelled/graded: 1 of 4 queries (25%)")
    assert "2 distinct tasks" in section.words[0] and len(section.words) == 2
    assert section.table.rows == [("query 3", "task 1", "the seed", "the better one")]


def labelled_beside(root: Path, filtered: list[str], strategy: str = "mutual", origin: str = "fret") -> str:
    """What is said of labels with these parameters that have queries of ``relabelled``, which are of ``origin``."""
    store = LocalStore(root)
    texts = {"passages": ["one", "another"], "split": "train"}
    own, moved = ("seed", "seed"), ("better", "other")
    firsts = {"q0": own, "q1": own, "q2": moved, "q3": moved, "q4": own}
    rows = [
        {"query_id": name, "query": name, "source_passage_id": source, "passage_ids": [first, "other"]} | texts
        for name, (first, source) in firsts.items()
    ]
    asked = [{"query_id": name, "origin": origin} for name in firsts] + [{"query_id": "q9", "origin": "another"}]
    pairs = put(store, INSTRUCTED_PAIRS, asked, dataset=f"mtp/{origin}/checked")
    relabelled = put(store, RELABELLED, rows, dataset="relabelled", params={"k": 60}, pairs=pairs)
    agreed = {"q0": "seed", "q1": "other", "q2": "better", "q3": "seed", "elsewhere": "better"}
    labels = [{"query_id": q, "positive_id": p} for q, p in agreed.items()]
    put(store, LABELLED, labels, params={"filtered": filtered, "strategy": strategy})
    built = put(store, TRIPLETS, [{"query_id": "q0", "split": "train"}], dataset="mtt/fret", relabelled=relabelled)
    with lineage(store) as ask:
        return relabelling_section(ask, str(built)).words[1]


@pytest.mark.parametrize(("origin", "strategy"), [("fret", "mutual"), ("fret", "identical"), ("event", "mutual")])
def test_it_says_how_often_the_reference_models_agree_on_the_same_positive(tmp_path, origin, strategy):
    assert labelled_beside(tmp_path, ["dm", origin], strategy, origin) == (
        "Of 4 queries that labelled has too, 2 (50%) have the positive that the reference models agree on; 1 of the 2 "
        "among them that have another one than the passage that they were written for."
    )


@pytest.mark.parametrize(
    ("filtered", "strategy", "origin"),
    [("dm", "mutual", "fret"), ("fret", "none", "fret"), ("fret", "consistency", "fret"), ("fret", "mutual", "event")],
)
def test_labels_that_kept_their_own_positives_are_nobodys_agreement(tmp_path, filtered, strategy, origin):
    said = labelled_beside(tmp_path, [filtered], strategy, origin)
    assert said.startswith(f'labelled has 4 of these queries, which are of ["{origin}"]. ')
    assert f'Its filtered= is ["{filtered}"], its strategy= {strategy}: ' in said
    remedy = f"--input pairs=mtp/{origin}/checked --set strategy=mutual --set 'models=[…]'"
    assert f"{remedy} --set 'filtered=[\"{origin}\"]'" in said
