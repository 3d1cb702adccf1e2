from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.near_duplicate_passages import near_duplicate_passages
from pipeline_tasks.datasets import PASSAGE_DUPLICATES, PASSAGES
from tests.stores import go, put, reasons, rejects, rows

DUPLICATES = "duplicates/passages"


def duplicate(passage_id: str, of: str, cosine: float = 1.0) -> dict:
    return {"passage_id": passage_id, "representative_id": of, "cosine": cosine}


def test_rejects_name_the_passage_that_stays_and_the_cosine(store):
    chunks = [{"passage_id": i, "doc_id": "d", "text": i} for i in "zyxwv"]
    put(store, PASSAGES, chunks[:2], chunks[2:], dataset="chunks")
    found = [duplicate("z", "z"), duplicate("y", "y"), duplicate("x", "z", 0.9314), duplicate("w", "w")]
    put(store, PASSAGE_DUPLICATES, found, [duplicate("v", "y", 0.99999)], dataset=DUPLICATES)
    outcome = go(store, near_duplicate_passages)
    assert [row["passage_id"] for row in rows(store, "passages")] == ["z", "y", "w"]
    assert reasons(store, "passages") == {"near_duplicate_passage": 2}
    assert {key: row["detail"] for key, row in rejects(store, "passages").items()} == {
        "x": "of z, cosine 0.931",
        "v": "of y, cosine 1.000",
    }
    assert outcome.counters["rows_out"] == 3


@pytest.mark.parametrize("found", [["a", "c"], ["b", "a"], ["a"]], ids=["another", "another order", "fewer"])
def test_duplicates_among_other_passages_are_refused(store, found):
    put(store, PASSAGES, [{"passage_id": i} for i in "ab"], dataset="chunks")
    put(store, PASSAGE_DUPLICATES, [duplicate(i, i) for i in found], dataset=DUPLICATES)
    with pytest.raises(InputError, match="not of these passages; .* --input embeddings="):
        go(store, near_duplicate_passages)


def test_no_passages_have_no_duplicates(store):
    put(store, PASSAGES, [], dataset="chunks")
    put(store, PASSAGE_DUPLICATES, [], dataset=DUPLICATES)
    assert go(store, near_duplicate_passages).counters["rows_out"] == 0
