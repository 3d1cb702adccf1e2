from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from tests.core.together import together

WRITERS, KEYS = 8, 25


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def create_all(i: int, root: Path) -> list[bool]:
    return [LocalStore(root).create(f"race/{key}", f"writer {i}".encode() * 1000) for key in range(KEYS)]


def count_alone(i: int, root: Path) -> None:
    for _ in range(KEYS):
        with LocalStore(root).alone("counter"):
            number = int((root / "number").read_text())
            (root / "number").write_text(str(number + 1))


def test_create_has_one_winner_per_key_and_what_is_read_is_whole(store):
    won = together(WRITERS, create_all, store.root)
    for key in range(KEYS):
        (winner,) = [i for i in range(WRITERS) if won[i][key]]
        assert store.read(f"race/{key}") == f"writer {winner}".encode() * 1000
    assert not list((store.root / "tmp").iterdir())


def test_alone_lets_one_process_in_at_a_time_and_leaves_nothing(store):
    store.root.mkdir()
    (store.root / "number").write_text("0")
    together(4, count_alone, store.root)
    assert (store.root / "number").read_text() == str(4 * KEYS)
    assert not list((store.root / "locks").iterdir())


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd", ".."])
def test_a_key_never_leaves_the_store(store, key):
    for use in (store.read, store.delete, store.local_path, lambda k: list(store.keys(k))):
        with pytest.raises(InputError, match="leaves the store"):
            use(key)
    for write in (store.create, store.replace):
        with pytest.raises(InputError, match="leaves the store"):
            write(key, b"x")
    with pytest.raises(InputError, match="leaves the store"), store.alone(key + "/.."):
        pass


def test_create_keeps_the_first_replace_the_last(store):
    assert store.create("a/b", b"first") and not store.create("a/b", b"second")
    assert store.read("a/b") == b"first"
    store.replace("a/b", b"third")
    assert store.read("a/b") == b"third"
    store.delete("a/b")
    store.delete("a/b")
    assert store.read("a/b") is None and not store.exists("a/b")


def test_create_from_consumes_the_file_even_where_it_loses(store):
    for expected in (True, False):
        path = store.temporary(".bin")
        path.write_bytes(b"same")
        assert store.create_from("objects/x", path) is expected
        assert not path.exists()


def test_keys_are_sorted_and_below_the_prefix(store):
    for key in ("b/2", "b/1/x", "a/1", "bc/1"):
        store.create(key, b"")
    assert list(store.keys("b")) == ["b/1/x", "b/2"]
    assert list(store.keys("nothing")) == []


def test_a_folder_is_no_key(store):
    store.create("a/b/c", b"")
    assert store.read("a/b") is None and store.read("a/b/c/d") is None


def test_a_missing_object_says_what_to_do(store):
    with pytest.raises(InputError, match=r"objects/x is missing .* run the step that made it again"):
        store.local_path("objects/x")
