import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.corpus.chunking.words import SPACES, WordTokenizer
from tests.corpus.chunking.texts import any_text


@settings(max_examples=200)
@given(text=any_text, max_tokens=st.integers(100, 300))
def test_words_have_the_tokens_of_the_whole_text(tokenizer, text, max_tokens):
    words = WordTokenizer(tokenizer, max_tokens)(text)
    whole = tokenizer.encode(text, add_special_tokens=False)
    unknown = [b - a for token, (a, b) in zip(whole.tokens, whole.offsets, strict=True) if token == "[UNK]"]
    assert (words.ids.tolist() == whole.ids and words.n_unknown == sum(unknown)) or max(unknown) > 100
    assert words.n_tokens.sum() == len(words.ids) and (words.n_tokens <= max_tokens).all()
    assert words.words == [text[a:b] for a, b in zip(words.starts, words.ends, strict=True)]


def test_scripts_without_spaces_are_cut_after_full_stops_and_what_closes_them(tokenizer):
    words = WordTokenizer(tokenizer, 255)("洪水だ。「逃げろ！」と言った。 終わり")
    assert words.words == ["洪水だ。", "「逃げろ！」", "と言った。", "終わり"]


def test_letters_in_a_row_that_are_one_unknown_token_are_cut(tokenizer):
    long = "flood" * 300
    words = WordTokenizer(tokenizer, 255)(f"One ({long}) is it.")
    assert tokenizer.encode(long, add_special_tokens=False).tokens == ["[UNK]"]
    assert max(map(len, words.words)) <= 100 and words.is_cut
    assert len(words.ids) > 300 and tokenizer.token_to_id("[UNK]") not in words.ids
    assert words.n_unknown == 0, "each of their letters is known where it is cut"
    assert "".join(np.array(words.words)[words.is_piece]) == f"({long})"
    assert WordTokenizer(tokenizer, 255)("").unknown_share == 0


def test_a_million_letters_in_a_row_are_cut_at_once(tokenizer):
    begun = time.process_time()
    words = WordTokenizer(tokenizer, 255)("flood" * 200_000)
    assert time.process_time() - begun < 10
    assert {len(word) for word in words.words} == {100} and words.is_piece.all()


def test_what_is_remembered_changes_nothing(tokenizer):
    tokenise = WordTokenizer(tokenizer, 255)
    text = "The unforeseeable inundation, again: the unforeseeable inundation."
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenise(text).ids.tolist() == tokenise(text).ids.tolist() == ids


def test_white_space_is_what_str_split_cuts_at_but_for_control_characters():
    everywhere = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert everywhere == set(SPACES) | set("\x0b\x0c\x1c\x1d\x1e\x1f\x85")
