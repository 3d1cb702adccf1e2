from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.chunk_passages import ChunkPassagesParams, chunk_passages, pack, split_of
from pipeline_tasks.datasets import DOCUMENTS
from tests.stores import go, put, reasons, rows

MODEL = "all-minilm-l6-v2"
_pieces = st.one_of(
    st.sampled_from([" ", "\n", "\n\n", ". ", "? ", '." ', "! (", "\n- ", "A", "The ", "e.g. ", "\u00a0", "\u2028"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(1, 60).map(lambda n: "." * n),
    st.integers(1, 200).map(lambda n: "x" * n),
)
texts = st.lists(_pieces, max_size=60).map("".join)


def starts_of(text: str, every: int) -> list[int]:
    """First characters of tokens: words cut into pieces of ``every`` characters, as a subword tokenizer does."""
    return [at for word in re.finditer(r"\S+", text) for at in range(word.start(), word.end(), every)]


@settings(max_examples=300, deadline=None)
@given(text=texts, max_tokens=st.integers(1, 40), every=st.integers(1, 6))
def test_nothing_is_lost_repeated_or_too_long(text, max_tokens, every):
    starts = starts_of(text, every)
    spans = pack(text, starts, max_tokens)
    at = 0
    for span in spans:
        assert at <= span.start < span.end <= len(text)
        assert not text[at : span.start].strip()
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        assert span.n_tokens == sum(span.start <= start < span.end for start in starts) <= max_tokens
        at = span.end
    assert not text[at:].strip()


@settings(max_examples=100, deadline=None)
@given(text=texts, copies=st.integers(2, 60), max_tokens=st.integers(1, 20))
def test_many_tokens_at_one_character_come_to_an_end(text, copies, max_tokens):
    """One character may stand for many tokens; it can not be cut and is the only thing over the limit."""
    starts = [at for at, character in enumerate(text) if not character.isspace() for _ in range(copies)]
    spans = pack(text, starts, max_tokens)
    assert all(span.n_tokens <= max_tokens or span.end - span.start == 1 for span in spans)
    joined = "".join(text[span.start : span.end] for span in spans)
    assert "".join(joined.split()) == "".join(text.split())


def test_sentences_stay_whole_and_passages_are_of_even_size():
    sentences = [f"This is sentence number {i} of the text." for i in range(50)]
    text = " ".join(sentences)
    spans = pack(text, starts_of(text, 100), 150)
    assert all(text[span.start : span.end].endswith(".") for span in spans)
    assert " ".join(text[span.start : span.end] for span in spans) == text
    assert [span.n_tokens for span in spans] == [144, 144, 112]


@pytest.mark.parametrize(
    "text",
    ["." * 700, "Before. " + "." * 700 + " After this.", "a " + "." * 700 + " b", "word " * 700, "\u6d2a" * 700],
    ids=["dots", "dots between sentences", "dots between words", "words", "no spaces"],
)
def test_the_real_tokenizer_never_sees_too_long_a_passage(fetched, text):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(fetched(MODEL) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(part: str) -> list[int]:
        return [start for start, _ in tokenizer.encode(part, add_special_tokens=False).offsets]

    spans = pack(text, encode(text), 255)
    assert "".join("".join(text[s.start : s.end].split()) for s in spans) == "".join(text.split())
    for span in spans:
        assert len(encode(text[span.start : span.end])) == span.n_tokens <= 255


def test_splits_follow_the_bytes_of_a_document_alone():
    params = ChunkPassagesParams(test_fraction=0.25, dev_fraction=0.15)
    names = [f"{i:064x}" for i in range(4000)]
    splits = [split_of(name, params) for name in names]
    for split, share in (("test", 0.25), ("dev", 0.15), ("train", 0.6)):
        assert splits.count(split) / len(splits) == pytest.approx(share, abs=0.03)
    assert splits == [split_of(name, params) for name in names]
    assert splits != [split_of(name, params.model_copy(update={"split_salt": "another"})) for name in names]
    larger = params.model_copy(update={"dev_fraction": 0.3})
    assert all(split_of(name, larger) == "test" for name, split in zip(names, splits, strict=True) if split == "test")


def document(doc_id: str, pages: list[str], sha256: str = "") -> dict:
    starts, at = [], 0
    for page in pages:
        starts.append(at)
        at += len(page) + 2
    text = "\n\n".join(pages)
    return {
        "doc_id": doc_id,
        "url": f"http://example.org/{doc_id}",
        "content_sha256": sha256 or doc_id,
        "title": doc_id.title(),
        "text": text,
        "page_starts": starts,
    }


def sentences(name: str, n: int) -> str:
    return " ".join(f"The {name} rises over road number {i} in the night." for i in range(n))


@pytest.fixture
def chunked(store: LocalStore, fetched) -> LocalStore:
    """Two documents in two parts, cut into passages of at most 64 tokens."""
    fetched(MODEL)
    first = document("first", [sentences("river", 20), "", sentences("creek", 20), "Short page."])
    put(store, DOCUMENTS, [first], [document("second", ["Too short."]), document("third", [""])])
    go(store, chunk_passages, max_tokens=64, min_tokens=8)
    return store


def test_passages_know_their_characters_and_their_page(chunked):
    documents = {row["doc_id"]: row for row in rows(chunked, "documents")}
    passages = rows(chunked, "chunks")
    assert len({passage["passage_id"] for passage in passages}) == len(passages) > 5
    for passage in passages:
        whole = documents[passage["doc_id"]]
        assert passage["text"] == whole["text"][passage["start_char"] : passage["end_char"]]
        begins_before = [start for start in whole["page_starts"] if start <= passage["start_char"]]
        assert passage["page"] == len(begins_before)
        assert 8 <= passage["n_tokens"] <= 64
    pages = {"river" if "river" in p["text"].split()[1] else "creek": p["page"] for p in passages}
    assert pages == {"river": 1, "creek": 3}


def test_what_is_too_short_is_a_reject(chunked):
    assert reasons(chunked, "chunks")["too_few_tokens"] >= 1
    assert "second" not in {passage["doc_id"] for passage in rows(chunked, "chunks")}


def test_a_document_is_on_one_side_as_a_whole_wherever_it_was_found(store, fetched):
    fetched(MODEL)
    copies = [document(f"doc{i}", [sentences("river", 30)], sha256=f"{i // 2:064x}") for i in range(40)]
    put(store, DOCUMENTS, copies[:25], copies[25:])
    go(store, chunk_passages, max_tokens=64, min_tokens=0)
    splits: dict[str, set[str]] = {}
    for passage in rows(store, "chunks"):
        splits.setdefault(passage["doc_id"], set()).add(passage["split"])
    assert all(len(found) == 1 for found in splits.values())
    assert {*map(tuple, splits.values())} == {("train",), ("dev",), ("test",)}
    for i in range(0, 40, 2):
        assert splits[f"doc{i}"] == splits[f"doc{i + 1}"]
