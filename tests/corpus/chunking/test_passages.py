from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import pipeline_tasks
from pipeline_tasks.corpus.chunking.passages import Chunker
from pipeline_tasks.corpus.chunking.words import SPACES
from tests.corpus.chunking.texts import HARD, any_text


def holds(text: str, passages: list, tokenizer: Tokenizer, max_tokens: int) -> None:
    """Passages and white space make up the text; each has the tokens that it says, at most ``max_tokens``.

    Where the text has over 100 letters in a row, which as a whole are one unknown token, they may say more.
    """
    at, overlong = 0, any(b - a > 100 for a, b in tokenizer.encode(text, add_special_tokens=False).offsets)
    for passage in passages:
        assert at <= passage.start < passage.end <= len(text)
        assert not text[at : passage.start].strip(SPACES)
        inside = text[passage.start : passage.end]
        assert inside == inside.strip(SPACES)
        n_whole = len(tokenizer.encode(inside, add_special_tokens=False).ids)
        assert passage.n_tokens == n_whole or (overlong and passage.n_tokens > n_whole)
        assert passage.n_tokens <= max_tokens or len(inside) == 1
        at = passage.end
    assert not text[at:].strip(SPACES)


@settings(max_examples=150)
@given(text=any_text, max_tokens=st.integers(2, 60), min_tokens=st.integers(0, 30), semantic=st.booleans())
def test_nothing_is_lost_repeated_or_too_long(tokenizer, table, text, max_tokens, min_tokens, semantic):
    passages = Chunker(tokenizer, max_tokens, min_tokens, table if semantic else None)(text)
    holds(text, passages, tokenizer, max_tokens)


@pytest.mark.parametrize("semantic", [True, False], ids=["semantic", "structure"])
@pytest.mark.parametrize("name", HARD)
def test_hard_texts(tokenizer, table, name, semantic):
    chunker = Chunker(tokenizer, 255, 24, table if semantic else None)
    begun = time.process_time()
    passages = chunker(HARD[name])
    assert time.process_time() - begun < 5
    assert bool(passages) == bool(HARD[name].strip(SPACES))
    holds(HARD[name], passages, tokenizer, 255)
    assert chunker(HARD[name]) == passages == Chunker(tokenizer, 255, 24, table if semantic else None)(HARD[name])


@pytest.fixture(scope="module")
def byte_tokenizer() -> Tokenizer:
    """A byte-level BPE: a word has other tokens after a space than at the beginning of a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["the river rises over the road in the night"] * 50, trainer)
    return tokenizer


@settings(max_examples=100)
@given(text=any_text, max_tokens=st.integers(8, 60))
def test_the_limit_holds_for_other_tokenizers(byte_tokenizer, text, max_tokens):
    holds(text, Chunker(byte_tokenizer, max_tokens)(text), byte_tokenizer, max_tokens)


def test_what_was_seen_before_changes_nothing_for_other_tokenizers(byte_tokenizer):
    text = "The river rises, quickly and unforeseeably. " * 9
    new, used = Chunker(byte_tokenizer, 40), Chunker(byte_tokenizer, 40)
    used("Rises, and quickly: unforeseeably. The road")
    assert used(text) == new(text)


def test_sentences_whose_blanks_are_lost_are_as_large_as_their_pieces(tokenizer, table):
    plain = " ".join(f"The river rises over road number {i} in the night." for i in range(60))
    text = f"{plain} {('theriverrisesovertheroad' * 209)[:5000]} {plain}"
    passages = Chunker(tokenizer, 255, 24, table)(text)
    holds(text, passages, tokenizer, 255)
    assert min(passage.n_tokens for passage in passages) >= 24


def test_parts_of_a_word_are_counted_together(tokenizer):
    holds("00각", Chunker(tokenizer, 2)("00각"), tokenizer, 2)


def cut(tokenizer: Tokenizer, text: str, max_tokens: int, table: np.ndarray | None = None) -> list[str]:
    return [text[p.start : p.end] for p in Chunker(tokenizer, max_tokens, 8, table)(text)]


def test_passages_are_of_even_size_and_of_whole_sentences(tokenizer):
    text = " ".join(f"This is sentence number {i} of the text." for i in range(50))
    passages = cut(tokenizer, text, 150)
    assert " ".join(passages) == text
    assert all(passage.endswith(".") for passage in passages)
    assert sorted({passage.count(".") for passage in passages}) in ([12, 13], [16, 17])


def test_a_heading_stays_with_what_it_heads_and_a_list_with_what_announces_it(tokenizer):
    body = "The river rises over the road in the night and nobody sees it come. " * 3
    text = f"{body}\n\nWhat to carry\n\nCarry what you need for three days:\n\n- water\n\n- a radio\n\n{body}"
    for limit in range(60, 120, 5):
        holder = next(passage for passage in cut(tokenizer, text, limit) if "What to carry" in passage)
        assert holder.find("- water") > holder.find("three days:") > holder.find("What to carry") >= 0


def test_a_paragraph_is_cut_rather_than_a_sentence_and_a_sentence_at_its_clauses(tokenizer):
    sentence = ", ".join(["the river rises over the road"] * 12) + "."
    assert all(passage[-1] in ",." for passage in cut(tokenizer, sentence, 40))
    paragraphs = "\n\n".join(["The river rises. The road is gone. Nobody sees it come in the night."] * 4)
    assert {passage[:9] + passage[-6:] for passage in cut(tokenizer, paragraphs, 45)} == {"The rivernight."}


def test_scraps_are_joined_where_there_is_room(tokenizer):
    text = "\n\n".join(["See also.", "The river rises over the road in the night. " * 9, "The end of it."])
    passages = Chunker(tokenizer, 60, 16)(text)
    assert len(passages) > 1
    assert min(passage.n_tokens for passage in passages) >= 16


@pytest.fixture(scope="module")
def joined() -> list[tuple[str, set[int]]]:
    """Texts made of sections of different documents, without line ends, and where each section but the first begins."""
    folder = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"
    bodies = [file.read_text("utf-8").split("+++")[2] for file in sorted(folder.glob("*.md"))]
    documents = [re.split(r"^##.*\n", body, flags=re.M) for body in bodies]
    found = []
    for row in range(3):
        sections = [" ".join(document[row + 1].split()) for document in documents if len(document) > 3]
        starts = np.cumsum([0] + [len(section) + 1 for section in sections]).tolist()
        found.append((" ".join(sections), set(starts[1:-1])))
    return found


def test_cuts_find_changes_of_subject(tokenizer, table, joined):
    def share_found(table: np.ndarray | None) -> float:
        chunker = Chunker(tokenizer, 255, 24, table)
        hits = [len(starts & {passage.start for passage in chunker(text)}) for text, starts in joined]
        return sum(hits) / sum(len(starts) for _, starts in joined)

    assert share_found(table) > 0.4 > 0.2 > share_found(None)
