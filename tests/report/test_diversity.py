"""What a report says of the instructions that a model learned from."""

from __future__ import annotations

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import INSTRUCTED_QUERIES, PAIRS, TOLD_PAIRS, TUPLES
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections.diversity import diversity_section
from pipeline_tasks.report.subject import lineage
from tests.stores import put


def test_instructions_before_and_after_a_check_are_compared_by_as_many_of_each(tmp_path):
    store = LocalStore(tmp_path)
    told = ["only new ones", "only old ones", "nothing from Peru", "in few words", " "]
    rows = [{"query_id": f"q{n}", "instruction": text} for n, text in enumerate(told)]
    plain = put(store, PAIRS, [{"query_id": "q0", "split": "train"}], dataset="mtp")
    written = put(store, TOLD_PAIRS, rows, dataset="mtp/instructed", pairs=plain)
    judged = put(store, INSTRUCTED_QUERIES, [rows[0], rows[1]], dataset="judged/dev")
    checked = put(store, TUPLES, rows[:2], dataset="tuples/checked", tuples=written)
    model = put(store, PAIRS, [{"query_id": "q0"}], dataset="model/22m/instructions", tuples=checked, dev=judged)
    with lineage(store) as ask:
        section = diversity_section(ask, str(model))
        assert diversity_section(ask, str(written)) is None, "mtp has no instructions"
    found = [one for _, sections in run_report(store, str(model)).groups for one in sections]
    assert section in found
    before, after = section.table.rows
    assert (before[0].ref, *before[1:3]) == (str(written), "4", "2")
    assert (after[0].ref, *after[1:]) == (str(checked), "2", "2", "0.667", "1.000", "1.000")
    assert section.words[0].startswith("Of 2 instructions of each")


def test_one_instruction_has_no_diversity(tmp_path):
    store = LocalStore(tmp_path)
    row = {"query_id": "q", "split": "train", "instruction": "only new ones"}
    written = put(store, TOLD_PAIRS, [row], dataset="mtp/instructed")
    model = put(store, PAIRS, [{"query_id": "q"}], dataset="model/22m/instructions", pairs=written)
    with lineage(store) as ask:
        assert diversity_section(ask, str(model)) is None
