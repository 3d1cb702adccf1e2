"""One text leads to the answer that it was bought in, however many others it was bought with."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.paid.text_index import PREFIX, TextIndex, forget
from pipeline_tasks.core.store import LocalStore

BOUGHT = {"a" * 64: ["flood", "storm", "fire"], "b" * 64: ["hail", "fire"]}


class Watched(LocalStore):
    """Notes the keys that are read, and calls ``then`` when it has listed some."""

    def __init__(self, root):
        super().__init__(root)
        self.reads, self.then = [], lambda: None

    def read(self, key):
        self.reads.append(key)
        return super().read(key)

    def entries(self, prefix):
        listed = list(super().entries(prefix))
        self.then()
        return iter(listed)


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path)
    TextIndex(store, "model").add(BOUGHT)
    return store


def found(index: TextIndex, texts: list[str]) -> set[tuple[str, str, int, int]]:
    """(text, first letter of the answer, row, rows) of every place."""
    return {
        (texts[at], place.answer_id[0], int(row), place.n_rows)
        for place in index.find(texts)
        for at, row in zip(place.texts, place.rows, strict=True)
    }


def test_every_answer_of_a_text_is_found(store):
    wanted = {("fire", "a", 2, 3), ("fire", "b", 1, 2), ("flood", "a", 0, 3)}
    assert found(TextIndex(store, "model"), ["sleet", "fire", "flood"]) == wanted
    assert TextIndex(store, "another").find(["fire"]) == TextIndex(store, "model").find(["sleet"]) == []
    assert TextIndex(store, "model").find([]) == []


def test_what_is_added_is_found_at_once_and_by_others(store):
    index = TextIndex(store, "model")
    index.add({"c" * 64: ["sleet"]})
    index.add({})
    for one in (index, TextIndex(store, "model")):
        assert found(one, ["sleet", "hail"]) == {("sleet", "c", 0, 1), ("hail", "b", 0, 2)}
    assert len(list(store.keys(PREFIX))) == 2


def test_the_same_again_is_the_same_file(store):
    before = list(store.keys(PREFIX))
    TextIndex(store, "model").add(dict(reversed(BOUGHT.items())))
    assert list(store.keys(PREFIX)) == before
    assert b"flood" not in (store.read(before[0]) or b"")


def test_answers_that_are_forgotten_are_found_no_more(store):
    TextIndex(store, "model").add({"c" * 64: ["sleet"]})
    store.delete_all(forget(store, {"a" * 64, "c" * 64}))
    assert found(TextIndex(store, "model"), ["flood", "fire", "sleet"]) == {("fire", "b", 1, 2)}
    assert forget(store, {"a" * 64}) == []
    assert b"a" * 64 not in b"".join(store.read(key) or b"" for key in store.keys(PREFIX))


def test_a_file_is_read_once_and_one_that_is_gone_tells_nothing_more(store):
    watched = Watched(store.root)
    index = TextIndex(watched, "model")
    for n in range(5):
        index.add({f"{n:064d}": [f"text {n}"]})
        assert len(index.find(["fire", f"text {n}"])) == 3
    TextIndex(store, "model").add({"c" * 64: ["sleet"]})
    assert found(index, ["sleet"]) == {("sleet", "c", 0, 1)}
    assert len(watched.reads) == len(set(watched.reads)) == 2
    store.delete_all(forget(store, {"a" * 64, "c" * 64}))
    assert found(index, ["sleet", "fire", "text 3"]) == {("fire", "b", 1, 2), ("text 3", "0", 0, 1)}


def test_many_small_files_are_put_together_and_no_text_is_lost_to_one_who_reads_meanwhile(store):
    large = {f"{n:064d}": [f"long ago {n}/{row}" for row in range(256)] for n in range(160)}
    TextIndex(store, "model").add(large)
    before = set(store.keys(PREFIX))
    writer, reader = TextIndex(store, "model"), Watched(store.root)
    texts = [f"text {n}" for n in range(100)]
    for n, text in enumerate(texts):
        writer.add({f"{n:063d}f": [text]})

    def once():
        reader.then = lambda: None
        assert len(writer.find(texts)) == 100

    reader.then = once
    assert len(found(TextIndex(reader, "model"), [*texts, "fire", "long ago 3/7"])) == 103
    (large_one,) = set(store.keys(PREFIX)) & before
    assert len(list(store.keys(PREFIX))) == 2 and len(store.read(large_one) or b"") > 1 << 20
    assert len(found(writer, [*texts, "fire", "long ago 3/7"])) == 103


def test_an_answer_that_two_files_tell_of_is_found_once(store):
    TextIndex(store, "model").add({"b" * 64: BOUGHT["b" * 64], "c" * 64: ["sleet"]})
    (place,) = TextIndex(store, "model").find(["hail"])
    assert place.texts.tolist() == [0] and place.rows.tolist() == [0]


def test_a_large_index_takes_as_long_as_it_is_long(store):
    """Many answers: rows stay with theirs."""
    index = TextIndex(store, "large")
    index.add({f"{n:064d}": [f"text {n}/{row}" for row in range(3)] for n in range(500)})
    texts = [f"text {n}/{n % 3}" for n in range(0, 500, 2)]
    places = index.find(texts)
    assert [int(place.answer_id) for place in places] == list(range(0, 500, 2))
    assert [int(place.rows[0]) for place in places] == [n % 3 for n in range(0, 500, 2)]
    np.testing.assert_array_equal(np.concatenate([place.texts for place in places]), np.arange(250))
