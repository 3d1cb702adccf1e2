from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.manifest import Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import REMOVED, Version, commit, point
from pipeline_tasks.corpus import passage_blocks
from pipeline_tasks.corpus.cluster_passages import cluster_passages
from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS
from tests.corpus.vectors import brute_representatives, planted, unit
from tests.stores import go, put, rows

EMBEDDINGS, DUPLICATES = "embeddings/all-minilm-l6-v2", "duplicates/passages"


def embedded(vectors: np.ndarray, first: int = 0) -> list[dict]:
    return [
        {"passage_id": f"p{i}", "doc_id": f"d{i % 7}", "embedding": vector.tolist()}
        for i, vector in enumerate(vectors, start=first)
    ]


def latest(store: LocalStore, dataset: str) -> Version:
    return Version.open(store, Ref.parse(dataset))


def grown(store: LocalStore, *parts: list[dict], without: dict[str, list[str]] | None = None) -> None:
    """Embeddings of ``parts``, minus the rows ``without`` (column -> keys), as a refresh would leave them."""
    made = latest(store, str(put(store, PASSAGE_EMBEDDINGS, *parts, dataset=EMBEDDINGS))).manifest
    for column, keys in (without or {}).items():
        part = write_rows(store, pa.table({"key": keys}, schema=REMOVED))
        removal = Removal(part=part, column=column, first=0, last=len(made.parts))
        made = made.model_copy(update={"id": f"{made.id}-{keys[0]}", "removals": [*made.removals, removal]})
    commit(store, made)
    point(store, made.ref)


def said(store: LocalStore) -> dict[str, str]:
    return {row["passage_id"]: row["representative_id"] for row in rows(store, DUPLICATES)}


@pytest.mark.parametrize("block_passages", [70, 250, 10_000], ids=["a part each", "two blocks", "one block"])
def test_every_passage_names_the_one_it_repeats(store, block_passages):
    vectors = planted(300, seed=0)
    put(store, PASSAGE_EMBEDDINGS, embedded(vectors[:200]), [], embedded(vectors[200:], 200), dataset=EMBEDDINGS)
    outcome = go(store, cluster_passages, block_passages=block_passages)
    expected = brute_representatives(vectors, 0.9)
    assert said(store) == {f"p{i}": f"p{other}" for i, other in enumerate(expected)}
    assert [part.rows for part in latest(store, DUPLICATES).manifest.parts] == [200, 0, len(vectors) - 200]
    assert all(row["cosine"] == 1 for row in rows(store, DUPLICATES) if row["passage_id"] == row["representative_id"])
    assert outcome.counters["passages_taken_over"] == 0


VECTORS = planted(400, seed=1)[:400]
PARTS = [embedded(VECTORS[at : at + 100], at) for at in range(0, 400, 100)]


@pytest.fixture(params=[70, 250, 10_000], ids=["a part each", "two a block", "one block"])
def again(request, store) -> Callable[[], Outcome]:
    """Clusters once more what the store holds, in which 400 passages were clustered before, in blocks of some size."""
    put(store, PASSAGE_EMBEDDINGS, *PARTS, dataset=EMBEDDINGS)
    go(store, cluster_passages)
    return partial(go, store, cluster_passages, block_passages=request.param)


def same_as_fresh(store: LocalStore, tmp_path: Path) -> None:
    """The version of a store that knows nothing has the same id and the same bytes."""
    made = latest(store, DUPLICATES).manifest
    other = LocalStore(tmp_path / "other")
    source = latest(store, EMBEDDINGS).manifest
    for part in source.objects:
        other.create(part.key, store.read(part.key) or b"")
    commit(other, source)
    point(other, source.ref)
    assert go(other, cluster_passages).counters["passages_taken_over"] == 0
    assert latest(other, DUPLICATES).manifest.to_bytes() == made.to_bytes()


def test_new_passages_are_compared_with_stored_ones_alone(store, again, tmp_path):
    before = latest(store, DUPLICATES).manifest
    new = planted(60, seed=1)[:30]
    grown(store, *PARTS, embedded(new, 400))
    outcome = again()
    assert outcome.counters["passages_taken_over"] == 400
    assert outcome.counters["pairs_screened"] <= 30 * 430
    assert latest(store, DUPLICATES).manifest.parts[:4] == before.parts, "what did not change is stored once"
    same_as_fresh(store, tmp_path)


def test_a_withdrawn_representative_frees_those_it_stood_for(store, again, tmp_path):
    stood_for: dict[str, list[str]] = {}
    for passage, representative in said(store).items():
        if passage != representative:
            stood_for.setdefault(representative, []).append(passage)
    gone = sorted(stood_for, key=lambda name: -len(stood_for[name]))[:5]
    grown(store, *PARTS, without={"passage_id": gone})
    outcome = again()
    freed = [passage for name in gone for passage in stood_for[name] if passage not in gone]
    now = said(store)
    assert not set(gone) & (set(now) | set(now.values()))
    assert any(now[passage] == passage for passage in freed)
    assert outcome.counters["passages_taken_over"] == 395 - len(freed)
    same_as_fresh(store, tmp_path)


@pytest.mark.parametrize("order", [[1, 2], [3, 0, 1], [0, 9, 1, 9, 2, 3]], ids=["fewer", "turned", "between"])
def test_parts_that_go_come_and_move(store, again, tmp_path, order):
    """A document withdrawn as a whole, parts in another order, and parts that replace others."""
    new = iter([embedded(planted(40, seed=7)[:20], 1000), embedded(planted(40, seed=1)[:20], 2000)])
    parts = [PARTS[i] if i < 9 else next(new) for i in order]
    grown(store, *parts, without={"doc_id": ["d3"]})
    again()
    same_as_fresh(store, tmp_path)


def test_a_withdrawn_passage_comes_back(store, again, tmp_path):
    first = latest(store, DUPLICATES).manifest
    grown(store, *PARTS, without={"passage_id": [f"p{i}" for i in range(0, 400, 3)]})
    again()
    put(store, PASSAGE_EMBEDDINGS, *PARTS, embedded(planted(4, 9)[:2], 800), dataset=EMBEDDINGS)
    again()
    assert latest(store, DUPLICATES).manifest.parts[:4] == first.parts
    same_as_fresh(store, tmp_path)


def test_another_vector_under_the_same_id_is_a_new_passage(store, again, tmp_path):
    changed = embedded(planted(100, seed=8)[:100], 100)
    grown(store, PARTS[0], changed, *PARTS[2:])
    assert again().counters["passages_taken_over"] <= 300
    same_as_fresh(store, tmp_path)


def test_another_threshold_takes_nothing_over(store, again):
    assert again(threshold=0.8).counters["passages_taken_over"] == 0


def test_a_run_that_ended_goes_on_with_the_blocks_that_are_left(store, monkeypatch):
    put(store, PASSAGE_EMBEDDINGS, *PARTS, dataset=EMBEDDINGS)
    settle, settled = passage_blocks.settle, []

    def ended(*args, **named):
        settled.append(1)
        if len(settled) == 3:
            raise KeyboardInterrupt
        return settle(*args, **named)

    monkeypatch.setattr(passage_blocks, "settle", ended)
    with pytest.raises(KeyboardInterrupt):
        go(store, cluster_passages, block_passages=100)
    counters = go(store, cluster_passages, block_passages=100).counters
    # Of four blocks two were settled, and compared were the second with the first and the third with both.
    assert (counters["partitions_reused"], counters["partitions_built"]) == (5, 5)
    assert len(settled) == 5
    assert said(store) == {f"p{i}": f"p{other}" for i, other in enumerate(brute_representatives(VECTORS, 0.9))}


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([float("nan"), 0, 0], "passage p101 holds NaN or infinity"),
        ([float("inf"), 0, 0], "passage p101 holds NaN or infinity"),
        ([0, 0, 0], "passage p101 is not of length 1"),
        ([1, 1, 0], "passage p101 is not of length 1"),
        ([1, 0], "passage p101 is not of 3 numbers"),
        ([], "passage p101 is not of 3 numbers"),
        (None, "passage p101 is not of 3 numbers"),
        ([1, 0, None], "passage p101 holds NaN or infinity"),
    ],
)
def test_a_bad_vector_is_named(store, vector, message):
    good = embedded(unit(np.random.default_rng(0).normal(size=(100, 3))))
    bad = {"passage_id": "p101", "doc_id": "d", "embedding": vector}
    put(store, PASSAGE_EMBEDDINGS, good, [good[0] | {"passage_id": "p100"}, bad], dataset=EMBEDDINGS)
    with pytest.raises(InputError, match=message):
        go(store, cluster_passages)


@pytest.mark.parametrize("parts", [[], [[]], [[], []]])
def test_no_passages_have_no_representatives(store, parts):
    put(store, PASSAGE_EMBEDDINGS, *parts, dataset=EMBEDDINGS)
    assert go(store, cluster_passages).counters["rows_out"] == 0
