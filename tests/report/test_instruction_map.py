"""The map of instructions: a point for each different one, where the step is seen that left it out."""

from __future__ import annotations

from html import escape

import numpy as np
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, TOLD_PAIRS, TUPLES
from pipeline_tasks.report.page import page
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections import instruction_map
from pipeline_tasks.report.sections.instruction_map import instruction_map_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import SCRIPT
from tests.report.test_page import HARMLESS, Seen
from tests.stores import put

TOLD = ["only new reports", "only old reports", "only reports from Peru", SCRIPT, "in few words", "in many words"]


def build(store: LocalStore, told: list[str], kept: int) -> str:
    """A model behind which are these instructions, the first ones of which passed a check."""
    rows = [{"query_id": f"q{n}", "instruction": text} for n, text in enumerate(told)]
    written = put(store, TOLD_PAIRS, rows, dataset="mtp/instructed")
    checked = put(store, TUPLES, rows[:kept], dataset="tuples/checked", tuples=written)
    return str(put(store, PAIRS, [{"query_id": "q0"}], dataset="model/22m/instructions", tuples=checked))


def test_every_instruction_is_a_point_that_says_what_it_is_and_how_far_it_came(tmp_path):
    store = LocalStore(tmp_path)
    model = build(store, [*TOLD, TOLD[0], " "], kept=4)
    with lineage(store) as ask:
        section, again = (instruction_map_section(ask, model) for _ in range(2))
    assert section.table == again.table and section.words[0].startswith("All 6 different")
    found = {row[0]: row[1:] for row in section.table.rows}
    assert found.keys() == set(TOLD)
    assert [found[text][0] for text in TOLD] == ["tuples/checked"] * 4 + ["mtp/instructed"] * 2
    at = {text: np.array([float(x), float(y)]) for text, (_, x, y) in found.items()}
    near, far = (np.linalg.norm(at[TOLD[0]] - at[other]) for other in (TOLD[1], TOLD[4]))
    assert near < far
    html = page(run_report(store, model))
    drawn = html.split('<svg class="desk"')[-1].split("</svg>")[0]
    assert [drawn.count(f"<g><title>{escape(text)}</title>") for text in TOLD] == [1] * 6
    assert ">tuples/checked<" in drawn and ">mtp/instructed<" in drawn
    assert Seen(html).tags <= set(HARMLESS.split()) and SCRIPT not in html and 'id="tip-' not in html


def test_of_many_instructions_the_same_ones_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(instruction_map, "POINTS", 4)
    store = LocalStore(tmp_path)
    model = build(store, TOLD, kept=4)
    with lineage(store) as ask:
        section, again = (instruction_map_section(ask, model) for _ in range(2))
    assert section.words[0].startswith("4 of 6, drawn by their hash, different")
    assert len(section.table.rows) == 4 and section.table == again.table


@pytest.mark.parametrize("told", [["the same", "The same.", "the same!"], ["only one", "and another"]])
def test_what_cannot_be_laid_out_has_no_map(tmp_path, told):
    store = LocalStore(tmp_path)
    model = build(store, told, kept=2)
    with lineage(store) as ask:
        assert instruction_map_section(ask, model) is None
