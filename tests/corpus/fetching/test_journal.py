from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline_tasks.corpus.fetching.journal import Journal
from pipeline_tasks.corpus.fetching.outcomes import Outcome
from tests.corpus.fetching.parts import PDF

SHA256 = hashlib.sha256(PDF).hexdigest()
REFUSED = Outcome("b", "refused", "http_404", "caf\u00e9\n", attempts=2)
FETCHED = Outcome("a", "fetched", sha256=SHA256, size_bytes=len(PDF), status=200, etag='"1"')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal with two outcomes."""
    journal = Journal(tmp_path)
    path = journal.unfinished()
    path.write_bytes(PDF)
    journal.keep(path, SHA256)
    journal.note(FETCHED)
    journal.note(REFUSED)
    journal.close()
    return tmp_path


def reopened(folder: Path) -> dict[str, Outcome]:
    journal = Journal(folder)
    journal.close()
    return journal.outcomes


def test_what_was_noted_is_found_again(folder: Path):
    assert reopened(folder) == {"a": FETCHED, "b": REFUSED}
    assert Journal(folder).body(SHA256).read_bytes() == PDF


def test_a_line_that_was_cut_short_never_happened(folder: Path):
    lines = folder / "outcomes.jsonl"
    whole = lines.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        lines.write_bytes(whole[:length])
        assert reopened(folder) == {"a": FETCHED}
    journal = Journal(folder)
    journal.note(REFUSED)
    journal.close()
    assert lines.read_bytes() == whole


def test_a_line_that_a_power_cut_left_without_its_bytes_never_happened_nor_what_follows(folder: Path):
    lines = folder / "outcomes.jsonl"
    first, second = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(first + bytes(40) + b"\n" + second)
    assert reopened(folder) == {"a": FETCHED}
    assert lines.read_bytes() == first


@pytest.mark.parametrize("body", [None, PDF[:-1]])
def test_a_document_whose_bytes_are_not_whole_is_fetched_again(folder: Path, body):
    path = Journal(folder).body(SHA256)
    path.unlink()
    if body:
        path.write_bytes(body)
    assert reopened(folder) == {"b": REFUSED}


def test_bodies_that_were_on_their_way_are_dropped(folder: Path):
    left = Journal(folder).unfinished()
    left.write_bytes(PDF[:10])
    reopened(folder)
    assert not left.exists()


def test_a_refusal_that_time_may_undo_is_forgotten(folder: Path):
    journal = Journal(folder)
    journal.note(replace(REFUSED, url_id="c", reason="unreachable", passing=True))
    assert journal.forget_refusals({"a"}) == 1 and journal.outcomes == {"a": FETCHED, "b": REFUSED}
    assert journal.forget_refusals({"a", "b"}) == 1 and journal.outcomes == {"a": FETCHED}
    journal.close()
