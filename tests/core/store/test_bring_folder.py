"""Files of a bucket's folder are brought whole, however many bring them at once. The bucket is a stand-in."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.store import bring_folder as module
from pipeline_tasks.core.store.protocol import Entry

FILES = {"a.jsonl": b"a" * 1000, "b.jsonl": b"b" * 1000}


class Bucket:
    """Gives its files; of the one that is ``lost`` it says that it is not there."""

    lost: str = ""

    def __init__(self, address: str) -> None:
        self.address = address

    def below(self, prefix: str) -> Iterator[Entry]:
        yield from (Entry(f"{prefix}/{name}", len(data), 1.0) for name, data in FILES.items())

    def download(self, key: str, path: Path) -> str | None:
        name = key.rsplit("/", 1)[-1]
        if name == self.lost:
            return None
        with path.open("wb") as file:
            file.write(FILES[name][:500])
            file.flush()
            self.between(name)
            file.write(FILES[name][500:])
        return "sha256"

    def between(self, name: str) -> None:
        """Called with half of a file written."""


@pytest.fixture
def bring(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "Bucket", Bucket)
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in every container
    return lambda: module.bring_folder("s3://bucket/mine", tmp_path, lambda name: True, "anything")


def test_one_that_ends_while_another_writes_has_all_of_it(bring, monkeypatch):
    """The second has half of the first file when the first one is through."""
    ends, half, ended = threading.Event(), threading.Event(), threading.Event()

    def between(self: Bucket, name: str) -> None:
        if not ends.is_set() and name == "b.jsonl":
            ends.set()
            assert half.wait(60)
        elif ends.is_set() and not half.is_set():
            half.set()
            assert ended.wait(60)

    monkeypatch.setattr(Bucket, "between", between)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(bring)
        assert ends.wait(60)
        second = pool.submit(bring)
        assert {path.name: path.read_bytes() for path in first.result().iterdir()} == FILES
        ended.set()
        assert second.result() == first.result()
    assert {path.name: path.read_bytes() for path in second.result().iterdir()} == FILES
    assert list(first.result().parent.iterdir()) == [first.result()], "nothing else is left"


def test_what_was_brought_in_part_is_not_there_and_what_kills_left_goes(bring, monkeypatch):
    whole = bring()
    for name, age in (("old", 0), ("young", None)):
        left = whole.with_name(f".{whole.name}.{name}")
        whole.rename(left) if name == "old" else left.mkdir()
        if age is not None:
            os.utime(left, (age, age))
    monkeypatch.setattr(Bucket, "lost", "b.jsonl")
    with pytest.raises(TransientError, match="b.jsonl was deleted while it was brought"):
        bring()
    assert [path.name for path in whole.parent.iterdir()] == [".mine.young"]
