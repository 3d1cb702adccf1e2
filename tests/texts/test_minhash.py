from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline_tasks.texts.letters import ALONE, alphabet
from pipeline_tasks.texts.minhash import MISS, SEED, Sketches, band_keys, band_rows, sketch_texts
from tests.corpus.near_duplicates import planted, shingles_of, words_of

LETTERS = "aAbB_ 01\n-.éÉßΣςσжЖ中文字ひカ한국हिन्दीไทย\u00a0\u2019\u2014\u0301\u00ad😀𝒜"


def sketched(*texts: str | None, words: int = 3, n_permutations: int = 128) -> Sketches:
    return sketch_texts(pa.array(texts, pa.string()), words, n_permutations)


def shingles(sketches: Sketches, i: int) -> np.ndarray:
    return sketches.shingles[sketches.offsets[i] : sketches.offsets[i + 1]]


def as_datasketch(signature: np.ndarray) -> LeanMinHash:
    return LeanMinHash(hashvalues=signature, seed=SEED, scheme="affine32")


@settings(max_examples=300)
@given(st.lists(st.text(LETTERS, max_size=40), min_size=2, max_size=2), st.integers(1, 4))
def test_shingles_are_those_of_plain_python(texts, n):
    made = sketched(*texts, words=n)
    a, b = (set(shingles(made, i).tolist()) for i in range(2))
    first, second = (shingles_of(text, n) for text in texts)
    assert (len(a), len(b), len(a & b)) == (len(first), len(second), len(first & second))


def test_every_character_is_a_word_alone_or_not_as_the_definition_says():
    letters = alphabet()
    alone = [point for point in range(letters.size) if words_of(f"x{chr(point)}y") == ["x", chr(point), "y"]]
    assert alone == np.flatnonzero(letters & ALONE).tolist()


@settings(max_examples=100)
@example("0\U0001b164 ｱ")  # letters like any other
@example("ラーメン・ア゙ヽ")  # each a word, marks of kana too
@given(st.text(max_size=60))
def test_any_unicode_has_the_words_that_the_definition_says(text):
    made = sketched(text, " ".join(words_of(text)), words=2)
    assert shingles(made, 0).tolist() == shingles(made, 1).tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Crue À RÉPÉTITION", "crue à répétition"),
        ("ΟΔΟΣ ΑΘΗΝΩΝ", "οδος αθηνων"),
        ("Großer ЖАР", "großer жар"),
        ("flood,  warning\n(level 3)", "Flood Warning level 3"),
        ("don\u2019t\u00a0go\u2014now", "don t go now"),
        ("地震警報が出た", "地 震 警 報 が 出 た"),
    ],
)
def test_the_same_words(one, other):
    made = sketched(one, other)
    assert shingles(made, 0).tolist() == shingles(made, 1).tolist()


@pytest.mark.parametrize(
    ("one", "other"), [("resume", "résumé"), ("a b c", "a c b"), ("ab c", "a bc"), ("", "a"), ("中文", "中中")]
)
def test_different_words(one, other):
    made = sketched(one, other)
    assert set(shingles(made, 0).tolist()).isdisjoint(shingles(made, 1).tolist())


@pytest.mark.parametrize(
    ("text", "n"), [("", 1), ("one", 1), ("one two", 1), ("one two three four", 2), ("a a a a a", 1), (None, 1)]
)
def test_shingles_of_short_texts(text, n):
    assert len(shingles(sketched(text), 0)) == n


def test_shingles_are_ascending_and_distinct_in_a_text_of_many_repeats():
    found = shingles(sketched("x y " * 50_000 + " ".join(map(str, range(50_000)))), 0)
    assert len(found) == 2 + 2 + 50_000 - 2
    assert (found[1:] > found[:-1]).all() and found.dtype == np.uint64


@pytest.mark.parametrize("n_permutations", [16, 128, 200])
def test_signatures_are_those_of_datasketch(n_permutations):
    made = sketched(*planted()[:20], "", "one", n_permutations=n_permutations)
    for i, signature in enumerate(made.signatures):
        theirs = MinHash(n_permutations, hashfunc=int)
        theirs.update_batch((shingles(made, i) & np.uint64(0xFFFFFFFF)).tolist())
        assert signature.tolist() == theirs.hashvalues.tolist()
        assert as_datasketch(signature) == LeanMinHash(theirs)


def test_datasketch_takes_the_signatures_into_its_index_and_its_format():
    made = sketched(*planted()[:2], planted()[0].upper())
    index = MinHashLSH(threshold=0.8, num_perm=128)
    index.insert("first", as_datasketch(made.signatures[0]))
    assert index.query(as_datasketch(made.signatures[2])) == ["first"]
    assert index.query(as_datasketch(made.signatures[1])) == []
    sketch = as_datasketch(made.signatures[0])
    stored = bytearray(sketch.bytesize())
    sketch.serialize(stored)
    assert LeanMinHash.deserialize(stored).jaccard(as_datasketch(made.signatures[2])) == 1.0


def test_a_slice_of_texts_is_sketched_like_the_texts_alone():
    texts = pa.array(["before", *planted()[:3], "after"])
    whole, part = sketch_texts(texts), sketch_texts(texts.slice(1, 3))
    assert part.signatures.tolist() == whole.signatures[1:4].tolist()
    assert part.shingles.tolist() == whole.shingles[whole.offsets[1] : whole.offsets[4]].tolist()
    assert sketch_texts(texts.slice(0, 0)).signatures.shape == (0, 128)
    assert sketch_texts(texts.cast(pa.large_string())).shingles.tolist() == whole.shingles.tolist()


def test_a_slice_with_a_text_that_is_missing():
    made = sketch_texts(pa.array(["before", "a b c d", None, "e", "after"]).slice(1, 3))
    assert made.signatures.tolist() == sketched("a b c d", "", "e").signatures.tolist()


def test_damaged_utf8_does_no_harm():
    """Arrow does not check the bytes of a file that somebody else wrote."""
    data = b"ok \xff\xfe \xe4\xb8 \xc3 " + b"\xf0\x9f" * 40 + b"\xf7\xbf\xbf\xbf\xe4"
    texts = pa.StringArray.from_buffers(
        2, pa.py_buffer(np.array([0, 2, len(data)], np.int32).tobytes()), pa.py_buffer(data)
    )
    made = sketch_texts(texts)
    assert shingles(made, 0).tolist() == shingles(sketched("ok"), 0).tolist()
    assert made.signatures.shape == (2, 128)


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("n_permutations", [64, 128, 256])
def test_bands_let_hardly_a_pair_at_the_threshold_slip_and_no_wider_band_would_do(threshold, n_permutations):
    def missed(rows: int) -> float:
        return (1 - threshold**rows) ** (n_permutations // rows)

    rows = band_rows(threshold, n_permutations)
    assert rows == 1 or missed(rows) <= MISS
    assert rows == n_permutations or missed(rows + 1) > MISS


def test_band_keys_are_equal_where_all_rows_are():
    signatures = np.random.default_rng(0).integers(0, 3, (500, 11), dtype=np.uint32)
    keys = band_keys(signatures, 3)
    assert keys.shape == (3, 500)
    for band in range(3):
        rows = signatures[:, 3 * band : 3 * band + 3]
        same = (rows[:, None] == rows[None]).all(axis=2)
        assert ((keys[band][:, None] == keys[band][None]) == same).all() and same.sum() > 500
