from __future__ import annotations

import pymupdf
import pytest

from pipeline_tasks.corpus.pdf.model import PageText, Segment
from pipeline_tasks.corpus.pdf.read import ReadOptions, assemble, read_pdf
from tests.corpus.pdfs import PAGE, pdf, pictures

BODY = [
    "Sandbags hold back a foot of water.",
    "Move the car to a higher street.",
    "Listen to the radio all night.",
]


def test_headers_and_footers_with_page_numbers_are_dropped(read):
    pages = [
        [((72, 40), "County Flood Manual"), ((72, 300), text), ((72, 760), f"Page {i} of 3, revised May")]
        for i, text in enumerate(BODY, start=1)
    ]
    assert read(pdf(*pages)).text == "\n\n".join(BODY)


def test_bare_page_numbers_are_dropped_and_numbers_in_the_body_stay(read):
    pages = [[((72, 300), text), ((72, 400), "911"), ((300, 770), str(i))] for i, text in enumerate(BODY, start=7)]
    assert read(pdf(*pages)).text == "\n\n".join(f"{text}\n\n911" for text in BODY)


def test_a_line_at_the_edge_of_one_page_alone_stays(read):
    pages = [[((72, 40), f"Chapter {name}"), ((72, 300), text)] for name, text in zip("ABC", BODY, strict=True)]
    assert "Chapter B" in read(pdf(*pages)).text
    assert "County Flood Manual" in read(pdf([((72, 40), "County Flood Manual"), ((72, 300), BODY[0])])).text


def test_a_line_repeated_in_the_middle_of_pages_stays(read):
    text = read(pdf(*([((72, 400), "Drop, cover and hold on.")] for _ in range(3)))).text
    assert text.count("Drop, cover and hold on.") == 3


def test_the_left_column_is_read_before_the_right_one(read):
    left = "\n".join(f"left line {i} of the text" for i in range(20))
    right = "\n".join(f"right line {i} of the text" for i in range(20))
    text = read(pdf([((72, 150), left), ((330, 150), right)])).text
    assert text == f"{' '.join(left.splitlines())} {' '.join(right.splitlines())}"


def test_words_broken_at_a_line_end_are_joined_and_ranges_of_numbers_are_not(read):
    content = pdf([((72, 300), "The evac-\nuation of 2019-\n2020 was long.")])
    assert read(content).text == "The evacuation of 2019-2020 was long."


def test_page_starts_point_at_the_first_character_of_each_page(read):
    pages = [[((72, 300), BODY[0])], [], [((72, 300), BODY[1])], [((72, 300), BODY[2])]]
    found = read(pdf(*pages))
    assert found.n_pages == len(found.page_starts) == 4
    ends = [*found.page_starts[1:], len(found.text) + 2]
    cut = [found.text[a:b].strip() for a, b in zip(found.page_starts, ends, strict=True)]
    assert cut == [BODY[0], "", BODY[1], BODY[2]]
    assert found.n_words == sum(len(text.split()) for text in BODY)


def test_the_title_is_the_metadatas_or_else_the_first_line(read):
    page = [((72, 200), "Before the Storm"), ((72, 300), BODY[0])]
    assert read(pdf(page, title="Storm Guide")).title == "Storm Guide"
    assert read(pdf(page)).title == "Before the Storm"
    assert read(pdf([((72, 200), "\n".join(["word " * 10] * 5))])).title == ("word " * 50)[:120]
    assert len(read(pdf(page, title="t" * 1000)).title) == 300


def test_pictures_have_no_text_and_blank_pages_are_empty(refused):
    assert refused(pictures(3)) == "no_text"
    assert refused(pdf([], [])) == "empty"


def test_what_stands_far_off_the_page_is_left_out_and_counted(engine, read):
    n_seen = int(engine == "pypdfium2")
    assert read(pdf([((72, 300), BODY[0]), ((5000, 300), BODY[1])])).n_off_page == n_seen, "MuPDF gives none of it"
    unread = read_pdf(pdf([((5000, 300), BODY[1])]), ReadOptions(engine))
    assert unread.reason == "empty" and unread.detail.endswith("1 pieces of text off the page") == bool(n_seen)


def test_a_password_is_asked_for_only_where_reading_needs_one(read, refused):
    lock = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "owner_pw": "owner"}
    page = [((72, 300), BODY[0])]
    assert refused(pdf(page, user_pw="user", **lock)) == "encrypted"
    assert read(pdf(page, **lock)).text == BODY[0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"%PDF-1.7\n",
        b"%PDF-1.7\n" + bytes(range(256)) * 40,
        b"<!doctype html><p>Not here any more</p>",
        b"<!doctype html><!-- %PDF-1.7 --><p>A page that claims to be a document</p>",
        pdf(*([((72, 300), text)] for text in BODY), garbage=3, deflate=True, use_objstms=1)[:400],
    ],
    ids=["empty", "header only", "noise", "html", "html with magic", "truncated"],
)
def test_what_cannot_be_read_is_damaged(refused, content):
    assert refused(content) == "damaged"


def test_a_broken_cross_reference_table_is_mended(read):
    content = pdf([((72, 300), BODY[0])])
    at = content.rindex(b"startxref")
    assert read(content[:at]).text == BODY[0]


def test_control_characters_and_soft_hyphens_do_not_survive(read):
    with pymupdf.open() as document:
        page = document.new_page(width=PAGE.width, height=PAGE.height)
        page.insert_text((72, 300), "flood\u00ad\nplain", fontsize=10)
        document.set_metadata({"title": "A\u200bB\x07C\u00ad"})
        found = read(document.tobytes())
    assert (found.text, found.title) == ("floodplain", "ABC")


def test_every_ideograph_counts_as_a_word():
    line = Segment(72.0, 290.0, 500.0, 300.0, 10.0, False, "洪水是指河流、湖泊 of 2021、たき火。")
    assert assemble([PageText(612.0, 792.0, [line])], {"title": "", "created": "", "modified": ""}).n_words == 13


def test_soft_hyphens_at_the_end_of_pages_join_words_and_none_is_left():
    def page(text: str) -> PageText:
        return PageText(612.0, 792.0, [segment(200.0, 10.0, text), segment(700.0, 10.0, "Figure 1: A le\u00ad")])

    def segment(y: float, size: float, text: str) -> Segment:
        return Segment(72.0, y - size, 500.0, y, size, False, text)

    broken = "People of the county were told of the full evacu\u00ad"
    pages = [page(broken), page("ation of the valley, and of the road to the le\u00ad"), PageText(612.0, 792.0, [])]
    pages[0].segments.insert(0, segment(120.0, 20.0, "Flood\u00ad"))
    found = assemble(pages, {"title": "", "created": "", "modified": ""})
    assert found.title == "Flood" and {aside.text for aside in found.asides} == {"Figure 1: A le"}
    assert found.text.startswith("Flood\n\n") and "the full evacuation of the" in found.text
    assert found.text[found.page_starts[1] :] == "ation of the valley, and of the road to the le"
    assert found.page_starts[2] == len(found.text)
