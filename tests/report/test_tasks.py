"""What a report says of FRet's tasks: how many differ, and which belong together."""

from __future__ import annotations

from collections import Counter

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, TRIPLETS
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections import tasks
from pipeline_tasks.report.sections.tasks import Cluster, clustered, task_section
from pipeline_tasks.report.subject import lineage
from tests.stores import put

PLACES = ("Peru", "Chile", "Kenya", "Nepal", "Japan", "Fiji")
SUBJECTS = ("find the passage that answers a question of", "match this headline with its story from",
            "decide whether some claim is true in")  # fmt: skip
TEXTS = [f"{subject} {place}" for subject in SUBJECTS for place in PLACES]


def pairs(texts: list[str]) -> list[dict]:
    return [{"query_id": f"q{n}", "instruction": text, "split": "train"} for n, text in enumerate(texts)]


def test_tasks_that_share_their_words_are_one_cluster_with_one_of_them_as_an_example():
    found = clustered(TEXTS, [*[3] * 6, *[1] * 12])
    assert sum(one.n_tasks for one in found) == 18 and len(found) == 3
    by_subject = {subject: one for one in found for subject in SUBJECTS if one.typical.startswith(subject)}
    assert [by_subject[subject].n_tasks for subject in SUBJECTS] == [6, 6, 6]
    assert [by_subject[subject].n_queries for subject in SUBJECTS] == [18, 6, 6]
    assert {one.typical for one in found} <= set(TEXTS)
    assert found == clustered(TEXTS, [*[3] * 6, *[1] * 12])


def test_the_typical_task_is_the_one_nearest_to_the_centre():
    others = ["true or false", "claim false", "true claim or false claim"]
    found = clustered(["storm Peru", "storm Chile", "storm Peru Chile", *others], [1] * 6)
    assert [one.typical for one in found] == ["storm Peru Chile", "true claim or false claim"]


def test_the_largest_cluster_comes_first_and_a_task_alone_is_one():
    found = clustered([*TEXTS[:2], *TEXTS[6:9], *TEXTS[12:]], [1] * 11)
    assert [one.n_tasks for one in found] == [6, 3, 2]
    assert clustered(["only this one"], [5]) == [Cluster("only this one", 1, 5)]


def test_the_section_counts_tasks_that_passed_the_gate_and_differ_by_more_than_case_and_punctuation(tmp_path):
    store = LocalStore(tmp_path)
    written = put(store, INSTRUCTED_PAIRS, pairs([*TEXTS, "refused by the gate"]), dataset="mtp/fret")
    copies = [f"{TEXTS[0].upper()}!", "…"]
    checked = put(store, INSTRUCTED_PAIRS, pairs([*TEXTS, *copies]), dataset="mtp/fret/checked", pairs=written)
    built = put(store, TRIPLETS, [{"query_id": "q0", "split": "train"}], dataset="mtt/fret", pairs=checked)
    model = put(store, TRIPLETS, [{"query_id": "q0"}], dataset="model/22m/finetune", triplets=built)
    with lineage(store) as ask:
        section = task_section(ask, str(model))
        before = task_section(ask, str(checked))
        assert task_section(ask, str(written)) is None, "nothing of FRet is behind it"
    shown = [one.table for _, sections in run_report(store, str(model)).groups for one in sections]
    assert section.table in shown
    assert section.words[0].startswith("mtp/fret/checked: 19 tasks, one a query; 18 of them differ")
    assert "(all)" in section.words[1]
    assert Counter(row[1] for row in section.table.rows) == {"6": 3}
    assert sorted(row[3] for row in section.table.rows) == ["6", "6", "7"]
    assert {row[2] for row in section.table.rows} == {"33.3%"}
    assert before.words[0].startswith("mtp/fret: 19 tasks, one a query; 19 of them differ")


def test_of_many_tasks_the_same_ones_are_drawn_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "SAMPLE", 5)
    store = LocalStore(tmp_path)
    written = put(store, INSTRUCTED_PAIRS, pairs(TEXTS), dataset="mtp/fret")
    built = put(store, TRIPLETS, [{"query_id": "q0", "split": "train"}], dataset="mtt/fret", pairs=written)
    with lineage(store) as ask:
        section, again = task_section(ask, str(built)), task_section(ask, str(built))
    assert "(5 of them, drawn by a hash of their words)" in section.words[1] and "18 of them differ" in section.words[0]
    assert sum(int(row[1]) for row in section.table.rows) == 5
    assert section.table == again.table
