"""Made texts: what a memory of counts must not find in them."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

import pipeline_tasks
from benchmarks.new_texts import new_texts

SAMPLE = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"
GIVEN = [path.read_text("utf-8").split("+++")[-1] for path in sorted(SAMPLE.glob("*.md"))[:10]]


def made(n: int, seed: int = 0) -> list[str]:
    return list(islice(new_texts(GIVEN, seed), n))


def sentences(texts: list[str]) -> list[str]:
    return [found for text in texts for found in re.split(r"(?<=[.!?])\s+", text)]


def test_the_same_seed_makes_the_same_texts():
    assert made(5) == made(5)
    assert made(5) != made(5, seed=1)


def test_no_sentence_comes_twice_nor_was_given():
    found = sentences(made(300))
    assert len(found) > 3000
    assert len(set(found)) == len(found)
    assert not set(found) & set(sentences(GIVEN))


def test_new_words_keep_coming_as_they_do_in_a_corpus():
    before = " ".join(GIVEN).split()
    words = (word for text in new_texts(GIVEN, 0) for word in text.split())
    after = before + list(islice(words, 2 * len(before)))
    assert 1.6 < len(set(after)) / len(set(before)) < 2.4, (
        "real text of three times the length has about twice the words"
    )


def test_texts_of_which_nothing_new_can_be_made_are_refused():
    for given in ([], ["one two. one two."]):
        with pytest.raises(ValueError, match="give more texts"):
            next(new_texts(given, 0))
