"""A refresh: rankings of old queries are merged with new passages, and are those of a full search, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline_tasks.core.erasure.erase import erase
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Manifest, Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import REMOVED, Version, commit, point
from pipeline_tasks.datasets import ALL, PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS
from pipeline_tasks.retrieval import earlier_rankings
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put

MODEL = "all-minilm-l6-v2"
DEPTH, N_OLD, N_NEW, N_QUERIES = 20, 400, 40, 30
SMALL = {"shard_passages": 100, "block_queries": N_QUERIES}


def vectors(name: str, n: int) -> list[list[float]]:
    """Coarse numbers, so that cosines tie."""
    chance = np.random.default_rng(sum(name.encode()))
    return (chance.integers(-2, 3, (n, 8)) + 0.25).astype(np.float32).tolist()


def passages(name: str, n: int) -> list[dict]:
    return [{"passage_id": f"{name}{i:03}", "doc_id": "d", "embedding": v} for i, v in enumerate(vectors(name, n))]


def pairs(name: str, n: int = N_QUERIES) -> list[dict]:
    given = zip(vectors(f"{name}q", n), vectors(f"{name}g", n), strict=True)
    return [
        {"query_id": f"{name}{i}", "passage_id": "a000", "doc_id": "d", "intent": "qa", "query_embedding": query,
         "positive_id": f"g-{name}{i % 25}", "positive_embedding": positive}
        for i, (query, positive) in enumerate(given)
    ]  # fmt: skip


def withdrawn(store: LocalStore, *ids: str) -> None:
    """The latest passages without these."""
    old = Version.open(store, Ref(dataset=f"embeddings/{MODEL}")).manifest
    part = write_rows(store, REMOVED.empty_table().from_pydict({"key": sorted(ids)}, schema=REMOVED))
    removal = Removal(part=part, column="passage_id", first=0, last=len(old.parts))
    made = old.model_copy(
        update={"id": digest(old.id, sorted(ids)), "removals": [removal], "rows": old.rows - len(ids)}
    )
    commit(store, Manifest.model_validate(made.model_dump()))
    point(store, made.ref)


def refresh(store: LocalStore, gone: tuple[str, ...], new_queries: bool) -> None:
    put(store, PASSAGE_EMBEDDINGS, passages("b", N_NEW), passages("a", N_OLD), dataset=f"embeddings/{MODEL}")
    if gone:
        withdrawn(store, *gone)
    parts = [pairs("q"), pairs("r")] if new_queries else [pairs("q")]
    put(store, PAIR_EMBEDDINGS, *parts, dataset=f"query_embeddings/{MODEL}")


def first(root: Path) -> LocalStore:
    store = LocalStore(root)
    put(store, PASSAGE_EMBEDDINGS, passages("a", N_OLD), dataset=f"embeddings/{MODEL}")
    put(store, PAIR_EMBEDDINGS, pairs("q"), dataset=f"query_embeddings/{MODEL}")
    return store


def best_of(store: LocalStore, n: int) -> tuple[str, ...]:
    ranked = Version.open(store, Ref(dataset=f"rankings/{MODEL}")).table(["passage_ids"])["passage_ids"].to_pylist()
    return tuple(dict.fromkeys(name for names in ranked[:n] for name in names if name.startswith("a")))


@pytest.mark.parametrize("new_queries", [False, True])
@pytest.mark.parametrize("n_gone", [0, 1, 2])
@pytest.mark.parametrize(("depth", "spare"), [(DEPTH, 0), (DEPTH, 30), (2 * N_OLD, 30)])
def test_merged_rankings_are_those_of_a_full_search(tmp_path, depth, spare, n_gone, new_queries):
    store, fresh = first(tmp_path / "store"), LocalStore(tmp_path / "fresh")
    go(store, rank_passages, model=MODEL, depth=depth, spare=spare, **SMALL)
    gone = best_of(store, n_gone)[:25]
    for where in (store, fresh):
        refresh(where, gone, new_queries)
    merged = go(store, rank_passages, model=MODEL, depth=depth, spare=spare, **SMALL)
    full = go(fresh, rank_passages, model=MODEL, depth=depth)
    manifests = [Version.open(where, found.ref).manifest for where, found in ((store, merged), (fresh, full))]
    assert manifests[0] == manifests[1]
    n_queries = N_QUERIES * (1 + new_queries)
    assert full.counters["queries_searched"] == n_queries
    assert merged.counters["queries_merged"] == N_QUERIES
    again = merged.counters["queries_searched"] - N_QUERIES * new_queries
    if not n_gone or spare:
        assert again == 0, "nothing that was below the old rankings can move up"
        assert new_queries or merged.counters["cosines"] < full.counters["cosines"] / 5
    else:
        assert 0 < again < N_QUERIES, "some lists fell short, some were filled by new passages or lost nothing"


@pytest.mark.parametrize("grows", [False, True])
def test_what_is_kept_beyond_the_rankings_lasts_for_several_refreshes_and_then_is_searched_for(tmp_path, grows):
    store, searched, gone = first(tmp_path / "store"), [], list[str]()
    for n in range(8):
        if n:
            gone += best_of(store, 3)[:8]
            new = [passages(f"n{one}", 15) for one in range(n)] if grows else []
            put(store, PASSAGE_EMBEDDINGS, passages("a", N_OLD), *new, dataset=f"embeddings/{MODEL}")
            withdrawn(store, *gone)
        made = go(store, rank_passages, model=MODEL, depth=DEPTH, spare=12, **SMALL)
        searched.append(made.counters["queries_searched"])
        fresh = LocalStore(tmp_path / f"fresh{n}")
        put(fresh, PASSAGE_EMBEDDINGS, passages("a", N_OLD), *(new if n else []), dataset=f"embeddings/{MODEL}")
        if n:
            withdrawn(fresh, *gone)
        put(fresh, PAIR_EMBEDDINGS, pairs("q"), dataset=f"query_embeddings/{MODEL}")
        full = go(fresh, rank_passages, model=MODEL, depth=DEPTH, spare=0)
        parts = [Version.open(where, one.ref).manifest.parts for where, one in ((store, made), (fresh, full))]
        assert parts[0] == parts[1], n
    assert searched[:2] == [N_QUERIES, 0] and 0 < max(searched[2:]) < N_QUERIES / 3


def test_without_what_was_kept_beyond_the_rankings_more_is_searched(tmp_path):
    found = []
    for lost in (False, True):
        store = first(tmp_path / str(lost))
        go(store, rank_passages, model=MODEL, depth=DEPTH, **SMALL)
        for key in list(store.keys("memo")) if lost else ():
            store.delete(key)
        withdrawn(store, *best_of(store, 1)[:10])
        made = go(store, rank_passages, model=MODEL, depth=DEPTH, **SMALL)
        found.append((Version.open(store, made.ref).manifest.parts, made.counters["queries_searched"]))
    assert found[0][0] == found[1][0] and found[0][1] == 0 < found[1][1]


@pytest.mark.parametrize("depth", [6, 8, DEPTH])
def test_where_passages_only_go_away_the_rest_is_ranked_as_by_a_full_search(tmp_path, depth):
    """Of the domain two of its six; of an origin the positives of queries that are gone."""
    of_faq = {"passage_id": "", "origin": "faq"}
    stays, goes = ([row | of_faq for row in pairs(name, 4)] for name in ("f", "g"))
    stores = [LocalStore(tmp_path / name) for name in ("store", "fresh")]
    for where in stores:
        put(where, PASSAGE_EMBEDDINGS, passages("a", 6), dataset=f"embeddings/{MODEL}")
        put(where, PAIR_EMBEDDINGS, pairs("q", 3), stays, goes, dataset=f"query_embeddings/{MODEL}")
    go(stores[0], rank_passages, model=MODEL, depth=depth)
    for where in stores:
        withdrawn(where, "a001", "a003")
        put(where, PAIR_EMBEDDINGS, pairs("q", 3), stays, dataset=f"query_embeddings/{MODEL}")
    made = [go(where, rank_passages, model=MODEL, depth=depth) for where in stores]
    merged, full = (Version.open(where, found.ref) for where, found in zip(stores, made, strict=True))
    assert merged.manifest.parts == full.manifest.parts and made[0].counters["queries_merged"] == 7
    ranked = {row["query_id"]: row["passage_ids"] for row in merged.table().to_pylist()}
    assert set(ranked["f0"]) == {row["positive_id"] for row in stays}
    assert len(ranked["q0"]) == min(depth, 7) and "" not in ranked["q0"]


def test_a_ranking_with_a_place_without_a_passage_is_not_written(tmp_path, monkeypatch):
    store = first(tmp_path)
    go(store, rank_passages, model=MODEL, depth=2 * N_OLD)
    withdrawn(store, "a001")

    def only_old(tables: Iterator[pa.Table], depth: int) -> pa.Table:
        old = next(tables)
        return pa.table({name: pc.list_slice(old[name], 0, depth) for name in old.column_names})

    monkeypatch.setattr(earlier_rankings, "best_of", only_old)
    with pytest.raises(RuntimeError, match="a place without a passage"):
        go(store, rank_passages, model=MODEL, depth=2 * N_OLD)


def test_rankings_of_other_vectors_are_not_taken_over(tmp_path):
    store = first(tmp_path)
    go(store, rank_passages, model=MODEL, depth=DEPTH)
    changed = [row | {"query_embedding": row["query_embedding"][::-1]} for row in pairs("q")]
    put(store, PAIR_EMBEDDINGS, changed, dataset=f"query_embeddings/{MODEL}")
    assert go(store, rank_passages, model=MODEL, depth=DEPTH).counters["queries_searched"] == N_QUERIES
    put(store, PAIR_EMBEDDINGS, pairs("q"), dataset=f"query_embeddings/{MODEL}")
    assert "queries_merged" not in go(store, rank_passages, model=MODEL, depth=DEPTH + 1).counters


def test_where_the_old_version_is_no_longer_whole_it_is_searched_in_full(tmp_path):
    store = first(tmp_path)
    go(store, rank_passages, model=MODEL, depth=DEPTH)
    old = Version.open(store, Ref(dataset=f"embeddings/{MODEL}")).manifest
    refresh(store, (), new_queries=False)
    (store.root / "versions" / "embeddings" / MODEL / f"{old.id}.json").unlink()
    assert go(store, rank_passages, model=MODEL, depth=DEPTH).counters["queries_searched"] == N_QUERIES


@pytest.mark.parametrize("lost", ["rankings", "queries"])
def test_where_a_part_is_lost_it_is_ranked_again(tmp_path, lost):
    store = first(tmp_path)
    made = go(store, rank_passages, model=MODEL, depth=DEPTH).ref
    of = made if lost == "rankings" else Ref(dataset=f"query_embeddings/{MODEL}")
    (part,) = Version.open(store, of).manifest.parts
    store.delete(part.key)
    put(store, PAIR_EMBEDDINGS, pairs("q"), dataset=f"query_embeddings/{MODEL}")
    again = go(store, rank_passages, model=MODEL, depth=DEPTH)
    assert again.ref == made and Version.open(store, made).table().num_rows == N_QUERIES


@pytest.mark.parametrize("n_queries", [1, N_QUERIES])
def test_rankings_that_an_erasure_took_passages_from_are_made_anew(tmp_path, n_queries):
    ours, fresh = LocalStore(tmp_path / "ours"), LocalStore(tmp_path / "fresh")
    old = [row | {"doc_id": f"d-{row['passage_id']}"} for row in passages("a", N_OLD)]
    asked = [row | {"passage_id": old[-1]["passage_id"], "doc_id": old[-1]["doc_id"]} for row in pairs("q", n_queries)]
    put(ours, PASSAGE_EMBEDDINGS, old, dataset=f"embeddings/{MODEL}")
    put(ours, PAIR_EMBEDDINGS, asked, dataset=f"query_embeddings/{MODEL}")
    go(ours, rank_passages, model=MODEL, depth=DEPTH)
    gone = next(name for name in best_of(ours, 1) if name != old[-1]["passage_id"])
    erase(ours, [gone, f"d-{gone}"], {schema.name: schema for schema in ALL})
    left = [row for row in old if row["passage_id"] != gone]
    for store in (ours, fresh):
        put(store, PASSAGE_EMBEDDINGS, left, passages("b", 1), dataset=f"embeddings/{MODEL}")
        put(store, PAIR_EMBEDDINGS, asked, dataset=f"query_embeddings/{MODEL}")
    made = [go(store, rank_passages, model=MODEL, depth=DEPTH).ref for store in (ours, fresh)]
    merged, full = (Version.open(store, ref).manifest.parts for store, ref in zip((ours, fresh), made, strict=True))
    assert [part.sha256 for part in merged] == [part.sha256 for part in full]
