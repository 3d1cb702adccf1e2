from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_tasks.texts.copies import GRAM_WORDS, KINDS, SHORT_WORDS, KnownTexts
from pipeline_tasks.texts.near import NearTexts
from tests.corpus.near_duplicates import exact_jaccard, shingles_of, words_of

SENTENCE = "Boil the water for one full minute, three at high altitude, before anybody in the house drinks any of it."
SPELT = (
    "Flie\u00dfendes Wasser abkochen, die T\u00fcr \u00f6ffnen, auf 65 Grad warten und f\u00fcnf Minuten kochen lassen."
)
FEW_WORDS = st.lists(st.sampled_from(["flood", "Flood,", "fire", "é", "\u00c9", "?"]), max_size=18).map(" ".join)


def known(*of_owners: list[str]) -> KnownTexts:
    texts = KnownTexts()
    for owner, mine in enumerate(of_owners):
        texts.add(owner, pa.array(mine, pa.string()))
    return texts


def found(texts: KnownTexts, *mine: str | None, least_share: float = 0.0) -> list[tuple[int, str, int]]:
    copies = texts.copies_among(pa.array(mine, pa.string()), least_share)
    return [
        (row, KINDS[kind], owners) for row, kind, owners in zip(*(column.tolist() for column in copies), strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (SENTENCE, "exact"),
        (SENTENCE.upper().replace(",", " -"), "normalised"),
        ("They say: " + " ".join(SENTENCE.split()[3 : 3 + GRAM_WORDS]) + ", it is said.", "13gram"),
        ("They say: " + " ".join(SENTENCE.split()[3 : 2 + GRAM_WORDS]) + ", it is said.", None),
        (" ".join(reversed(SENTENCE.split())), None),
    ],
)
def test_a_copy_is_of_the_surest_kind_that_it_is(text, kind):
    assert found(known([SENTENCE]), "another", text) == ([(1, kind, 1)] if kind else [])


@pytest.mark.parametrize(
    "typed",
    [
        unicodedata.normalize("NFD", SPELT),
        SPELT.replace("ffen", "f\u00adfen").replace("Grad", "Gr\u200bad"),
        SPELT.replace("ff", "\ufb00"),
        "".join(chr(ord(sign) + 0xFEE0) if sign in "abcdef" else sign for sign in SPELT),
    ],
)
def test_a_text_is_the_same_however_its_letters_were_typed(typed):
    assert typed != SPELT and found(known([SPELT]), typed) == [(0, "normalised", 1)]
    texts = NearTexts(0.9)
    texts.add(0, pa.array([SPELT]))
    assert texts.near_among(pa.array([typed])).rows.tolist() == [0]


def test_all_owners_of_the_surest_kind_are_named():
    texts = known(["Where is it?"], ["where is it"], ["Where is it?", SENTENCE])
    assert found(texts, "Where is it?", "WHERE is it", SENTENCE + " More.") == [
        (0, "exact", 0b101), (1, "normalised", 0b111), (2, "13gram", 0b100),
    ]  # fmt: skip


def test_nothing_is_no_copy_of_nothing():
    assert found(known(["", "?!"]), "", "?!", None) == [] == found(known(), "any")


def test_a_share_is_of_the_text_or_of_the_known_one_whichever_is_shorter():
    page = " ".join(f"w{i}" for i in range(112))
    long = " ".join(f"v{i}" for i in range(400))
    assert found(known([page]), f"{long} {page}", least_share=0.9) == [(0, "13gram", 1)], "all of the known one"
    assert found(known([f"{long} {page}"]), page, least_share=1.0) == [(0, "13gram", 1)], "all of the text"
    of_page = page.split()[:62]
    half, less = (f"{long} {' '.join(words)}" for words in (of_page, of_page[:-1]))
    assert found(known([page]), half, less, least_share=0.5) == [(0, "13gram", 1)], "50 of its 100 runs, and 49"


@pytest.mark.parametrize("n_words", range(SHORT_WORDS - 1, GRAM_WORDS + 2))
def test_a_short_text_is_found_inside_a_longer_one_from_8_words_on_and_whole(n_words):
    words = [f"w{i}" for i in range(n_words)]
    long = [f"v{i}" for i in range(30)]
    texts, queries = KnownTexts(SHORT_WORDS), KnownTexts()
    for one in (texts, queries):
        one.add(0, pa.array(["another", " ".join(words)]))
        one.add(1, pa.array([" ".join(words) + "!", None]))
    within, broken = " ".join([*long, *words, *long]), " ".join([*long, *words[1:], *long, *words[:-1]])
    expected = [(1, "13gram", 0b11)] if n_words >= SHORT_WORDS else []
    assert found(texts, broken if n_words <= GRAM_WORDS else "", within, least_share=0.5) == expected
    assert found(queries, within, least_share=0.5) == ([(0, "13gram", 0b11)] if n_words >= GRAM_WORDS else [])


@given(st.lists(FEW_WORDS, max_size=4), st.lists(FEW_WORDS, max_size=4))
def test_short_texts_inside_others_are_those_of_plain_python(texts, mine):
    short, plain = KnownTexts(SHORT_WORDS), known(texts)
    short.add(0, pa.array(texts, pa.string()))
    several = {row for row, _, _ in found(plain, *mine)}
    for row, text in enumerate(mine):
        told = [words_of(other) for other in texts]
        within = any(
            SHORT_WORDS <= len(other) < GRAM_WORDS and tuple(other) in shingles_of(text, len(other)) for other in told
        )
        several |= {row} if within and words_of(text) else set()
    assert {row for row, _, _ in found(short, *mine)} == several


@given(st.lists(FEW_WORDS, max_size=4), st.lists(FEW_WORDS, max_size=4))
def test_copies_are_those_of_plain_python(texts, mine):
    runs = {run for text in texts if words_of(text) for run in shingles_of(text, GRAM_WORDS)}
    expected = []
    for row, text in enumerate(mine):
        if words_of(text) and shingles_of(text, GRAM_WORDS) & runs:
            same_words = any(words_of(text) == words_of(other) for other in texts)
            expected.append((row, "exact" if text in texts else "normalised" if same_words else "13gram", 1))
    assert found(known(texts), *mine) == expected


@given(st.lists(FEW_WORDS, min_size=1, max_size=4), st.lists(FEW_WORDS, max_size=4))
def test_near_texts_are_those_of_plain_python(texts, mine):
    near = NearTexts(0.9)
    near.add(2, pa.array(texts, pa.string()))
    rows, owners = near.near_among(pa.array(mine, pa.string()))
    alike = [
        i for i, text in enumerate(mine) if words_of(text) and max(exact_jaccard(text, t, 1) for t in texts) >= 0.9
    ]
    assert rows.tolist() == alike
    assert np.array_equal(owners, np.full(len(alike), 4, np.uint64))
