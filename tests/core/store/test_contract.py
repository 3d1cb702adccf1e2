"""What every store promises, held for a folder and for a bucket."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import Store
from tests.core.together import together

WRITERS, KEYS = 8, 25
HOSTILE = [
    "../outside",
    "a/../../outside",
    "/etc/passwd",
    "..",
    ".",
    "",
    "/",
    "a//b",
    "./a",
    "a/./b",
    "a/..",
    "..\\outside",
    "a\\..\\b",
    "a\x00b",
    "a\nb",
    "a/" + "x" * 256,
]


def create_all(i: int, store: Store) -> list[bool]:
    return [store.create(f"race/{key}", f"writer {i}".encode() * 1000) for key in range(KEYS)]


def count_alone(i: int, store: Store, number: Path) -> None:
    for _ in range(KEYS):
        with store.alone("counter"):
            number.write_text(str(int(number.read_text()) + 1))


def count_by_swaps(i: int, store: Store) -> int:
    lost = 0
    for _ in range(KEYS):
        while not store.swap("number", seen := store.read("number"), str(int(seen or b"0") + 1).encode()):
            lost += 1
    return lost


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


def test_create_has_one_winner_per_key_and_what_is_read_is_whole(store):
    won = together(WRITERS, create_all, store)
    for key in range(KEYS):
        (winner,) = [i for i in range(WRITERS) if won[i][key]]
        assert store.read(f"race/{key}") == f"writer {winner}".encode() * 1000
    assert not list(store.folder.glob("tmp/*"))


def test_alone_lets_one_process_in_at_a_time_and_leaves_nothing(store, tmp_path):
    number = tmp_path / "number"
    number.write_text("0")
    together(4, count_alone, store, number)
    assert number.read_text() == str(4 * KEYS)
    assert not list(store.folder.glob("locks/*")) and not list(store.keys("locks"))


def test_a_swap_writes_only_over_what_was_expected(store):
    assert not store.swap("refs/x", b"old", b"new") and store.read("refs/x") is None
    assert store.swap("refs/x", None, b"first") and not store.swap("refs/x", None, b"second")
    assert not store.swap("refs/x", b"second", b"third") and store.read("refs/x") == b"first"
    assert store.swap("refs/x", b"first", b"") and store.swap("refs/x", b"", b"third")
    assert store.read("refs/x") == b"third"


def test_no_swap_is_lost_among_processes_that_swap_the_same_key(store):
    together(4, count_by_swaps, store)
    assert store.read("number") == str(4 * KEYS).encode()
    assert not list(store.folder.glob("locks/*")) and not list(store.folder.glob("tmp/*"))


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_never_leaves_the_store(store, key):
    def list_all(key):
        return list(store.keys(key))

    def entries(key):
        return list(store.entries(key))

    for use in (store.read, store.exists, store.delete, store.local_path, list_all, entries):
        with pytest.raises(InputError, match="leaves the store"):
            use(key)
    for write in (store.create, store.replace):
        with pytest.raises(InputError, match="leaves the store"):
            write(key, b"x")
    with pytest.raises(InputError, match="leaves the store"):
        store.swap(key, None, b"x")
    with store.temporary() as path, pytest.raises(InputError, match="leaves the store"):
        store.create_from(key, path)
    for use in (store.scratch, store.drop_scratch):
        with pytest.raises(InputError, match="leaves the store"):
            use(key + "/..")
    with pytest.raises(InputError, match="leaves the store"), store.alone(key + "/.."):
        pass


def test_what_a_worker_keeps_of_a_store_it_finds_for_each_piece_of_its_work(store):
    one, other = (pickle.loads(pickle.dumps(store)) for _ in range(2))
    assert {one: "kept"}[other] == "kept"


def test_create_keeps_the_first_replace_the_last(store):
    assert store.create("a/b", b"first") and not store.create("a/b", b"second")
    assert store.read("a/b") == b"first"
    store.replace("a/b", b"third")
    assert store.read("a/b") == b"third"
    store.delete("a/b")
    store.delete("a/b")
    assert store.read("a/b") is None and not store.exists("a/b")


def test_create_from_leaves_the_file_to_be_offered_again(store):
    with store.temporary(".bin") as path:
        path.write_bytes(b"same")
        assert [store.create_from("objects/x", path) for _ in range(2)] == [True, False]
        store.delete("objects/x")
        assert store.create_from("objects/x", path)
    assert store.local_path("objects/x").read_bytes() == b"same"


def test_keys_are_sorted_and_below_the_prefix(store):
    for key in ("b/2", "b/1/x", "a/1", "bc/1"):
        store.create(key, key.encode())
    assert list(store.keys("b")) == list(store.keys("b/")) == ["b/1/x", "b/2"]
    assert list(store.keys("nothing")) == []
    assert [(entry.key, entry.size_bytes) for entry in store.entries("b")] == [("b/1/x", 5), ("b/2", 3)]


def test_many_at_once_are_what_they_are_one_by_one(store):
    keys = [f"n/{i}" for i in range(40)]
    for key in keys[::2]:
        store.create(key, key.encode())
    assert list(store.read_all(keys)) == [(key, store.read(key)) for key in keys]
    assert store.present(keys) == set(keys[::2])
    store.delete_all(keys[:30])
    assert list(store.keys("n")) == keys[30::2]


def test_a_folder_is_no_key(store):
    store.create("a/b/c", b"")
    assert store.read("a/b") is None and store.read("a/b/c/d") is None
    assert store.read("a/b/c") == b""


def test_a_missing_object_says_what_to_do(store):
    store.bring(["objects/x"])
    with pytest.raises(InputError, match=r"objects/x is missing .* `foundry check`"):
        store.local_path("objects/x")


def test_a_scratch_folder_is_found_again_until_it_is_dropped(store):
    (store.scratch("work") / "checkpoint").write_text("half way")
    again = pickle.loads(pickle.dumps(store))
    assert (again.scratch("work") / "checkpoint").read_text() == "half way"
    again.drop_scratch("work")
    again.drop_scratch("work")
    assert not list(store.scratch("work").iterdir())
