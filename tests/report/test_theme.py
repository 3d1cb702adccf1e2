"""Charts are as their texts say, whatever is in these."""

from __future__ import annotations

import warnings
from html import escape
from xml.dom.minidom import parseString

import pytest

from pipeline_tasks.report.content import Chart
from pipeline_tasks.report.theme import figure, svg_of


@pytest.mark.parametrize(
    "text",
    [
        "Find the CSS rule that sets font-family: Arial for a button",
        'what is <b id="x" style="font-family: serif; color: #0d0e10">?',
        "洪水何时退去",
    ],
)
def test_a_text_is_shown_as_it_is_and_only_tags_are_made_the_pages(text):
    def draw(width):
        drawing = figure(width, 40)
        drawing.text(0, 0.5, text)
        return drawing

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = svg_of(Chart("title", "about", draw), "key")
    shown = [node.firstChild.data.strip() for node in parseString(f"<p>{svg}</p>").getElementsByTagName("text")]
    assert shown == [text, text], "one for a phone, one for a desk"
    assert "font-family" not in svg.replace(escape(text, quote=False), "") and "var(--ink)" in svg
