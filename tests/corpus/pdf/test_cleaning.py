from __future__ import annotations

import pytest

from pipeline_tasks.corpus.pdf.cleaning import Hyphens, clean


@pytest.mark.parametrize(
    ("lines", "elsewhere", "joined"),
    [
        ("the evac-\nuation", "", "the evacuation"),
        ("a well-\nknown rule", "it is known", "a well-known rule"),
        ("to pre-\ndict rain", "", "to predict rain"),
        ("flood-\nprone land", "flood-prone areas", "flood-prone land"),
        ("flood-\nplain land", "the floodplain", "floodplain land"),
        ("for day-\nto-day work", "day-to-day", "for day-to-day work"),
        ("of 2019-\n2020", "", "of 2019-2020"),
        ("the Smith-\nJones act", "", "the Smith-Jones act"),
        ("soft\u00ad\nness", "", "softness"),
        ("evacu\u00ad", "", "evacu\u00ad"),
        ("see (x.org/respite-\nlocator/) now", "", "see (x.org/respite-locator/) now"),
        ("pages 3 -\n4", "", "pages 3 - 4"),
        ("洪水是指河\n流、 \n湖泊，\n海洋", "", "洪水是指河流、湖泊，海洋"),
        ("洪水は\nカタカナ", "", "洪水はカタカナ"),
        ("洪水 FEMA\n洪水", "", "洪水 FEMA 洪水"),
        ("Ｎｅｗ\nＹｏｒｋ", "", "Ｎｅｗ Ｙｏｒｋ"),
        ("水は\n３ｍ\nで、ＮＨＫ\n（放送）", "", "水は３ｍで、ＮＨＫ（放送）"),
        ("น้ำท่\nวม \nหมายถึง", "", "น้ำท่วม หมายถึง"),
        ("홍수는\n강물이", "", "홍수는 강물이"),
    ],
)
def test_a_broken_word_is_joined_as_the_document_writes_it(lines, elsewhere, joined):
    assert Hyphens([lines, elsewhere]).join(lines) == joined


def test_control_characters_ligatures_and_symbol_bullets_are_made_plain():
    assert clean("e\ufb03cient \u200bre\u00adlief\x07 \uf0b7 a\u00a0b") == "efficient relief \u2022 a b"
    assert clean("re\u00adlief\u00ad\nevacu\u00ad") == "relief\u00ad\nevacu\u00ad"
    assert clean("plain text") == "plain text"
    assert clean("flood\x0bwater\x0crises\x85fast") == "flood water rises fast"
    assert clean("e\u0301cole") == "\u00e9cole"
