from __future__ import annotations

import pytest

from pipeline_tasks.corpus.pdf.cleaning import Hyphens
from pipeline_tasks.corpus.pdf.flow import run_together
from pipeline_tasks.corpus.pdf.model import Paragraph


def over_two_pages(first: str, second: str) -> str:
    pages = [Paragraph(n, text, 10.0, False, 100.0, 700.0) for n, text in enumerate((first, second), start=1)]
    text, (_, start) = run_together(pages, 2, Hyphens([first, second]))
    assert text[start:] == second
    return text


FRENCH = "La rivière a débordé et les habitants ont été invités à partir"
RUSSIAN = "Жителям было сказано немедленно покинуть свои дома из-за навод"
HINDI = "बाढ़ तब आती है जब पानी अपने सामान्य स्तर से ऊपर उठकर सूखी भूमि को डुबो देता है और नदी का पानी"
ARABIC = "يمكن أن يحدث الفيضان عندما يفيض الماء من المسطحات المائية مثل النهر أو البحيرة،"


@pytest.mark.parametrize(
    ("first", "second"),
    [(FRENCH, "à l'aube."), (RUSSIAN, "нение."), (HINDI, "गाँव में आता है।"), (ARABIC, "أو السد."), (FRENCH, "(et tôt).")],
)
def test_a_sentence_of_any_script_goes_on_at_the_next_page(first, second):
    assert over_two_pages(first, second) == f"{first} {second}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FRENCH, "École fermée."),
        (f"{FRENCH}.", "à l'aube."),
        (f"{RUSSIAN}нения.", "план."),
        (f"{HINDI} आता है।", "गाँव"),
        (FRENCH, "ⅱ. Alerte"),
        (FRENCH, "2019"),
    ],
)
def test_a_new_sentence_begins_a_paragraph(first, second):
    assert over_two_pages(first, second) == f"{first}\n\n{second}"


def test_a_word_of_any_script_goes_on_at_the_next_page():
    assert over_two_pages(f"{RUSSIAN}-", "нения.") == f"{RUSSIAN}нения."


def test_chinese_goes_on_at_the_next_page_without_a_blank():
    first = "洪水是指河流、湖泊、海洋所含的水体上涨超过常规水位的水流现象。洪水常威胁沿河、滨湖、近海"
    assert over_two_pages(first, "地区的安全。") == f"{first}地区的安全。"
    assert over_two_pages(f"{first}地区。", "自古以来。") == f"{first}地区。\n\n自古以来。"
