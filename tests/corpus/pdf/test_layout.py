"""Reading order, tables, captions and references, on pages drawn for it; the same for both engines."""

from __future__ import annotations

from string import ascii_lowercase

import pymupdf
import pytest

from tests.corpus.pdfs import PAGE, pdf

WORDS = "river levee water crest gauge storm relief shelter boat rescue sandbag bridge culvert pump".split()


def prose(n_lines: int, tag: str, width: int = 8) -> list[str]:
    """Lines of full width; each names its column and number."""
    return [" ".join([f"{tag}{i}", *(WORDS[(i * 3 + j) % len(WORDS)] for j in range(width))]) for i in range(n_lines)]


def placed(lines: list[str], x: float, y: float, step: float = 13) -> list[tuple[tuple[float, float], str]]:
    return [((x, y + step * i), line) for i, line in enumerate(lines)]


def order(text: str, *tags: str) -> list[str]:
    """The words that begin with a tag and a number, as they come."""
    return [w for w in text.split() if w.rstrip("0123456789") in tags and w[-1].isdigit()]


def names(tag: str, n: int) -> list[str]:
    return [f"{tag}{i}" for i in range(n)]


@pytest.mark.parametrize("drawn_across", [False, True], ids=["column by column", "line by line"])
def test_two_columns_are_read_one_after_the_other(read, drawn_across):
    left, right = placed(prose(20, "a", 5), 60, 120), placed(prose(20, "b", 5), 320, 120)
    drawn = [s for pair in zip(left, right, strict=True) for s in pair] if drawn_across else left + right
    assert order(read(pdf(drawn)).text, "a", "b") == names("a", 20) + names("b", 20)


def test_a_title_over_columns_comes_first_and_a_note_under_them_last(read):
    columns = placed(prose(15, "a", 5), 60, 160) + placed(prose(15, "b", 5), 320, 160)
    over, under = ((60, 110), " ".join(prose(1, "t", 14))), ((60, 420), " ".join(prose(1, "u", 14)))
    found = read(pdf([under, *columns, over])).text
    assert order(found, "t", "a", "b", "u") == ["t0", *names("a", 15), *names("b", 15), "u0"]


def test_three_columns(read):
    page = [s for k, tag in enumerate("abc") for s in placed(prose(18, tag, 4), 40 + 185 * k, 120)]
    assert order(read(pdf(page)).text, *"abc") == [*names("a", 18), *names("b", 18), *names("c", 18)]


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_rotated_page_reads_like_an_upright_one(read, rotation):
    page = placed(prose(12, "a", 5), 60, 150) + placed(prose(12, "b", 5), 320, 150)
    with pymupdf.open(stream=pdf(page)) as document:
        document[0].set_rotation(rotation)
        assert read(document.tobytes()).text == read(pdf(page)).text


@pytest.mark.parametrize("turn", [90, 270])
def test_text_that_runs_up_or_down_the_page_is_read_in_its_own_direction(read, turn):
    with pymupdf.open() as document:
        page = document.new_page(width=PAGE.width, height=PAGE.height)
        for i, line in enumerate(prose(10, "a", 6)):
            x = 100 + 20 * i if turn == 90 else 500 - 20 * i
            page.insert_text((x, 700 if turn == 90 else 100), line, fontsize=10, rotate=turn)
        assert order(read(document.tobytes()).text, "a") == names("a", 10)


@pytest.mark.parametrize("by_column", [False, True], ids=["row by row", "column by column"])
def test_cells_of_a_table_are_set_aside_and_the_prose_around_it_stays(read, by_column):
    header = [("Gauge", 72), ("Crest ft", 220), ("Alarm", 370)]
    cells = [[((x, 300 + 16 * r), f"cell{r}{c}") for c, (_, x) in enumerate(header)] for r in range(6)]
    rows = [[((x, 284), name) for name, x in header], *cells]
    drawn = [row[c] for c in range(3) for row in rows] if by_column else [cell for row in rows for cell in row]
    found = read(pdf([*placed(prose(8, "a"), 72, 150), *drawn, *placed(prose(8, "b"), 72, 440)]))
    assert order(found.text, "a", "b") == names("a", 8) + names("b", 8)
    assert "cell" not in found.text and "Crest" not in found.text
    tables = "\n".join(a.text for a in found.asides if a.kind == "table")
    assert all(f"cell{r}0\tcell{r}1\tcell{r}2" in tables for r in range(6)) and "Crest ft" in tables


def test_a_list_is_no_table(read):
    marks = [((72, 150 + 16 * i), "\u2022") for i in range(6)]
    items = [((90, 150 + 16 * i), f"item{i} of the kit") for i in range(6)]
    found = read(pdf([s for pair in zip(marks, items, strict=True) for s in pair]))
    assert not found.asides
    assert [line.split()[1] for line in found.text.splitlines()] == names("item", 6)


@pytest.mark.parametrize("mark", ["\u00b7", "{}."])
def test_marks_of_a_list_at_the_top_and_foot_of_pages_stay_with_their_items(read, mark):
    pages: list[list] = [[], []]
    for i, letter in enumerate(ascii_lowercase):
        for page, verb in zip(pages, ("keep", "move"), strict=True):
            page += [((72, 60 + 26 * i), mark.format(i)), ((90, 60 + 26 * i), f"{verb} the {letter * 3} tonight")]
    drawn = [text for page in pages for _, text in page]
    written = [" ".join(pair) for pair in zip(drawn[::2], drawn[1::2], strict=True)]
    assert [line for line in read(pdf(*pages)).text.splitlines() if line] == written


def test_captions_are_set_aside_and_sentences_about_figures_stay(read):
    caption, sentence = (
        "Figure 3. Crest of the river at Weldon.",
        "Figure 3 shows the crest of the river that year.",
    )
    found = read(pdf([*placed(prose(6, "a"), 72, 150), ((72, 300), caption), ((72, 400), sentence)]))
    assert caption not in found.text and sentence in found.text
    assert [(a.kind, a.text) for a in found.asides] == [("caption", caption)]


def test_references_are_set_aside_to_the_next_heading(read):
    entries = [
        f"[{i}] Gage, A. and Levee, B. ({2000 + i}). Floods of the lower valley, pp. {i}-{i + 9}." for i in range(6)
    ]
    last = [((72, 150), "Appendix A"), *placed(prose(4, "b"), 72, 180)]
    with pymupdf.open() as document:
        for texts in ([*placed(prose(6, "a"), 72, 150), *placed(entries, 72, 340, 30)], last):
            page = document.new_page(width=PAGE.width, height=PAGE.height)
            for at, text in texts:
                page.insert_text(at, text, fontsize=16 if text.startswith("Appendix") else 10)
        document[0].insert_text((72, 310), "References", fontsize=16)
        found = read(document.tobytes())
    assert "Gage" not in found.text and "References" not in found.text
    assert order(found.text, "a", "b") == names("a", 6) + names("b", 4) and "Appendix A" in found.text
    kept = "\n".join(a.text for a in found.asides if a.kind == "references")
    assert all(entry in kept for entry in entries)


def test_a_chapter_that_is_called_references_but_cites_nothing_stays(read):
    lines = [((72, 150), "References"), *placed(prose(6, "a"), 72, 180)]
    assert order(read(pdf(lines)).text, "a") == names("a", 6)


def test_a_contents_page_is_set_aside(read):
    entries = [f"{i}. Chapter of the plan {'.' * 60} {i * 7}" for i in range(1, 8)]
    found = read(pdf(placed(entries, 72, 150, 20), placed(prose(6, "a"), 72, 150)))
    assert "Chapter" not in found.text and {a.kind for a in found.asides} == {"contents"}


def test_a_sentence_goes_on_over_columns_and_pages(read):
    first, second = prose(8, "a"), prose(8, "b")
    second[0] = f"and then {second[0]}"
    text = read(pdf(placed(first, 72, 150), placed(second, 72, 150))).text
    assert f"{first[-1]} and then" in text
    first[-1] = f"{first[-1]} evacua-"
    second[0] = f"tion of {second[0].removeprefix('and then ')}"
    found = read(pdf(placed(first, 72, 150), placed(second, 72, 150)))
    assert "evacuation of" in found.text and found.text[found.page_starts[1] :].startswith("tion of b0")


def test_headings_at_the_top_of_pages_stay_and_large_page_numbers_go(read):
    with pymupdf.open() as document:
        for i in range(4):
            page = document.new_page(width=PAGE.width, height=PAGE.height)
            page.insert_text((72, 60), f"Section {i + 1}", fontsize=18)
            page.insert_text((540, 770), str(i + 1), fontsize=18)
            for at, text in placed(prose(6, "abcd"[i]), 72, 150):
                page.insert_text(at, text, fontsize=10)
        found = read(document.tobytes())
    assert [line for line in found.text.split("\n\n") if len(line) < 20] == [f"Section {i}" for i in range(1, 5)]


def test_headers_of_left_and_right_pages_and_of_chapters_go(read):
    pages = []
    for i in range(12):
        head = "Flood Handbook" if i % 2 else f"Chapter {'Rain' if i < 6 else 'Wind'}"
        pages.append(
            [
                ((72 if i % 2 else 420, 40), head),
                *placed(prose(5, f"p{chr(97 + i)}"), 72, 150),
                ((300, 770), f"- {i + 1} -"),
            ]
        )
    found = read(pdf(*pages))
    assert "Handbook" not in found.text and "Chapter" not in found.text and "- 3 -" not in found.text
    assert {"Flood Handbook", "Chapter Rain", "Chapter Wind"} <= {a.text for a in found.asides if a.kind == "running"}
