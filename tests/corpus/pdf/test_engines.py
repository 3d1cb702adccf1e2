from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pymupdf
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.extract_text import ExtractTextParams
from pipeline_tasks.corpus.pdf.engines import engine_version, load_engine
from tests.corpus.pdfs import PAGE, pdf

FLOOD = "בעת שיטפון יש לעלות לקומה גבוהה ולהתרחק מכל מקור של מים זורמים"


def test_the_engine_and_its_version_are_part_of_the_identity(engine):
    assert re.fullmatch(rf"{engine} \d+\.\d.*", engine_version(engine))
    assert ExtractTextParams(engine=engine).identity()["libraries"]["engine"] == engine_version(engine)


def test_an_engine_that_is_not_there_is_the_callers_mistake():
    with pytest.raises(InputError, match="choose from pymupdf, pypdfium2"):
        engine_version("ghost")


def test_both_engines_see_the_same_segments():
    content = pdf([((72, 100), "Move to higher ground."), ((330, 100), "Now.")], title="Flood")
    pages = [load_engine(name).open_pdf(content) for name in ("pymupdf", "pypdfium2")]
    first, second = (opened.page(0) for opened in pages)
    assert [s.text for s in first.segments] == [s.text for s in second.segments] == ["Move to higher ground.", "Now."]
    for a, b in zip(first.segments, second.segments, strict=True):
        assert a[:5] == pytest.approx(b[:5], abs=1.5)
    assert pages[0].facts["title"] == pages[1].facts["title"] == "Flood"


def test_words_that_run_from_right_to_left_are_all_read(engine, read):
    font = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    with pymupdf.open() as document:
        page = document.new_page(width=PAGE.width, height=PAGE.height)
        for i in range(4):
            page.insert_text((72, 150 + 16 * i), FLOOD[::-1], fontname="F0", fontfile=font, fontsize=10)
        content = document.tobytes()
    segments = load_engine(engine).open_pdf(content).page(0).segments
    assert [s.text for s in segments] == [FLOOD] * 4 and all(s.x0 == pytest.approx(72, abs=2) for s in segments)
    assert read(content).text == " ".join([FLOOD] * 4)


@pytest.mark.parametrize("font", ["12 Tf 1 0 0 1", "-12 Tf -1 0 0 -1"], ids=["positive", "negative"])
def test_a_font_may_have_a_negative_size_that_its_matrix_turns_again(read, font):
    lines = [f"Move the car to street {i} before the river rises." for i in range(3)]
    shown = "".join(f"/helv {font} 72 {500 - 20 * i} Tm ({line}) Tj " for i, line in enumerate(lines))
    with pymupdf.open(stream=pdf([((72, 72), "x")])) as document:
        document.update_stream(document[0].get_contents()[0], f"BT {shown} ET".encode())
        assert read(document.tobytes()).text == " ".join(lines)


def test_what_a_clip_path_hides_is_not_read(read):
    show = "q {} re W n BT /helv 12 Tf 1 0 0 1 72 {} Tm ({}) Tj ET Q "
    drawn = [("0 0 600 790", 500, "Move the car."), ("9 9 9 9", 490, "An old draft.")]
    with pymupdf.open(stream=pdf([((72, 72), "x")])) as document:
        document.update_stream(document[0].get_contents()[0], "".join(show.format(*one) for one in drawn).encode())
        assert read(document.tobytes()).text == "Move the car."


@pytest.mark.parametrize("title", ["<FEFFD83D>", "<FEFF00460020D83D>"])
@pytest.mark.parametrize("node", ["<</Type/Nothing>>", "<</Type/Pages/Count 1/Kids[{0} 0 R]>>"])
def test_half_a_character_in_a_title_and_a_page_that_is_none_cost_no_text(engine, read, title, node):
    sound = pdf([((72, 100), "Move to higher ground.")], [((72, 100), "Now.")], title="Flood")
    with pymupdf.open(stream=sound) as document:
        info = int(document.xref_get_key(-1, "Info")[1].split()[0])
        document.xref_set_key(info, "Title", title)
        document.update_object(document[1].xref, node.format(document[1].xref))
        content = document.tobytes()
    assert not load_engine(engine).open_pdf(content).has_image(1)
    found = read(content)
    assert "Move to higher ground." in found.text and found.title.encode()
