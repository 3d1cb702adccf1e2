"""A passage is found by its id, in however large a corpus."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.core.arrays import in_order
from pipeline_tasks.core.errors import InputError


def corpus_of(ids: list[str]) -> Corpus:
    return Corpus(None, SimpleNamespace(ref="passages@1"), in_order(pa.table({"passage_id": ids}), "passage_id"))


def test_every_passage_is_found_whatever_its_id_is_made_of():
    ids = ["b", "", "a", "ab", "é", "\uff00", "\U0001f600", "B"]
    corpus = corpus_of(ids)
    assert [corpus.passage(i)["passage_id"] for i in ids] == ids
    for absent in ("aa", "\U0001f601", "A"):
        with pytest.raises(InputError, match=f"has no passage {absent!r}"):
            corpus.passage(absent)


def test_a_passage_costs_no_look_at_all_ids():
    ids = [f"{n:016x}" for n in range(300_000)]
    corpus, begun = corpus_of(ids), time.perf_counter()
    assert [corpus.passage(i)["passage_id"] for i in ids[::1500]] == ids[::1500]
    assert time.perf_counter() - begun < 3
