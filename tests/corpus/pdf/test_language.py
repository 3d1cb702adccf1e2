from __future__ import annotations

import pytest

from pipeline_tasks.corpus.pdf.language import language_of

TEXTS = {
    "en": "When the river rises, move the car to a higher street and listen to the radio for instructions.",
    "pt": "Quando o rio subir, leve o carro para uma rua mais alta e ou\u00e7a as instru\u00e7\u00f5es no r\u00e1dio.",
    "es": "Cuando el r\u00edo suba, lleve el coche a una calle m\u00e1s alta y escuche las instrucciones en la radio.",
    "fr": "Quand la rivi\u00e8re monte, d\u00e9placez la voiture vers une rue plus haute et \u00e9coutez la radio.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_sentences(code):
    assert language_of(TEXTS[code]) == code
    assert language_of(TEXTS[code].upper()) == code


def test_a_cover_page_in_another_language_does_not_decide():
    assert language_of(TEXTS["pt"] * 3 + TEXTS["en"] * 200) == "en"


def test_an_address_in_a_text_in_capitals_is_still_that_text():
    assert language_of(f"{TEXTS['en'].upper()} VISIT www.weather.gov/lch AND SEE ANNEX A, rev. 2.") == "en"


def test_what_has_no_words_is_undetermined():
    assert language_of("") == language_of("4711 0815 33 %") == "und"
