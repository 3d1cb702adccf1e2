"""``mine_negatives`` in blocks: the same triplets however they are cut, repeated only where something changed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import wraps
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core import partitions
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation import mine_negatives as module
from pipeline_tasks.curation import passage_facts, same_texts
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from tests.curation.mined_store import MODELS, plain, plant
from tests.curation.watched import deadly, seen
from tests.forked import forked
from tests.stores import put, rejects, rows

CUT = {"block_queries": 5, "shard_passages": 30}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    plant(store, 24, 40, parts=3)
    return store


def mine(store: LocalStore, *, workers: int = 1, alpha: float = 0.9, **params: int) -> Outcome:
    values = {"alpha": alpha, "models": MODELS, "n_negatives": 3} | params
    return run_job(store, plan(store, mine_negatives, values), workers=workers)


def parts(store: LocalStore) -> list[str]:
    manifest = Version.open(store, Ref.parse("mtt/0.9")).manifest
    return [part.sha256 for part in (*manifest.parts, *manifest.rejects)]


@pytest.fixture
def whole(tmp_path: Path) -> list[str]:
    """Parts of the version that one process makes in one block."""
    store = LocalStore(tmp_path / "whole")
    plant(store, 24, 40, parts=3)
    mine(store)
    return parts(store)


def test_it_chooses_what_a_plain_loop_chooses(store):
    mine(store, **CUT)
    found = {row["query_id"]: row["negative_ids"] for row in rows(store, "mtt/0.9")}
    assert found == plain(store, 0.9, 3) and len(found) > 10
    labels = [row["query_id"] for row in rows(store, "labelled")]
    assert list(found) == [query for query in labels if query in found]
    assert set(rejects(store, "mtt/0.9")) == set(labels) - set(found)


@pytest.mark.parametrize(
    ("cut", "workers"), [({"block_queries": 3}, 1), ({"block_queries": 9, "shard_passages": 5}, 1), (CUT, 2)]
)
def test_neither_blocks_nor_processes_have_a_say_in_the_bytes(store, whole, cut, workers):
    mine(store, workers=workers, **cut)
    assert parts(store) == whole


def test_triplets_that_span_blocks_lie_in_parts_of_one_size(store, whole, monkeypatch):
    monkeypatch.setattr(module, "_TRIPLET_BLOCK", 3)
    mine(store, **CUT)
    sizes = [part.rows for part in Version.open(store, Ref.parse("mtt/0.9")).manifest.parts]
    assert sizes[:-1] == [3] * (len(sizes) - 1) and 0 < sizes[-1] <= 3
    assert [row["query_id"] for row in rows(store, "mtt/0.9")] == list(plain(store, 0.9, 3))


def test_the_counters_are_of_all_blocks_however_they_were_cut(store):
    """Each of what was skipped, and how hard the negatives are."""
    one = mine(store).counters
    put(store, LABELLED, *([row] for row in rows(store, "labelled")))
    two = mine(store, **CUT).counters
    told = [name for name in one if name.startswith(("skipped", "gap", "positive_score", "negative", "trip", "short"))]
    assert len(told) > 40 and {name: one[name] for name in told} == pytest.approx({name: two[name] for name in told})


def refreshed(store: LocalStore) -> None:
    """Each dataset gets one more part; the new query's text and passages are named by no other."""
    new = {"query_id": "new", "query": "a new one?", "intent": "qa", "split": "train"}
    grown = {
        "passages": (PASSAGES, {"passage_id": "p-new", "text": "a new text", "split": "train"}),
        "mtp": (PAIRS, new | {"positive_id": "g-new", "positive": "its answer", "passage_id": "p0", "origin": "dm"}),
        "labelled": (LABELLED, new | {"positive_id": "g-new", "source_passage_id": "p0", "best_model": "one"}
                     | {"votes": [{"model": "one", "positive_score": 0.9}]}),
    }  # fmt: skip
    for model in MODELS:
        ranked = {"query_id": "new", "passage_ids": ["g-new", "p-new", "p1"], "scores": [0.9, 0.5, 0.4]}
        grown[f"rankings/{model}"] = (RANKINGS, ranked)
    for name, (schema, row) in grown.items():
        version = Version.open(store, Ref.parse(name))
        put(store, schema, *(table.to_pylist() for table in version.parts()), [row], dataset=name)


def test_a_refresh_reads_the_rankings_of_new_queries_and_no_others(store):
    """Blocks and shards smaller than a part: what is added makes some of its own."""
    cut = {"block_queries": 4, "shard_passages": 1, "n_negatives": 2}
    first = mine(store, **cut)
    assert first.counters["rankings_read"] == len(rows(store, "labelled"))
    refreshed(store)
    second = mine(store, **cut)
    assert second.counters["rankings_read"] == 1
    assert second.counters["passages_read"] == 2, "the new passage and the new generated positive"
    assert rows(store, "mtt/0.9")[-1]["query_id"] == "new"
    assert {row["query_id"]: row["negative_ids"] for row in rows(store, "mtt/0.9")} == plain(store, 0.9, 2)


def test_a_new_alpha_reads_no_passage_but_for_its_text(store):
    mine(store, **CUT)
    again = mine(store, alpha=0.4, **CUT)
    assert again.counters["rankings_read"] and again.counters["texts_read"] and not again.counters["passages_read"]


def killed_in_its_third_block(root: Path) -> None:
    module.find_low = deadly(module.find_low)
    mine(LocalStore(root), **CUT)


def test_a_killed_run_goes_on_with_the_block_that_is_missing(store, whole):
    process = forked().Process(target=killed_in_its_third_block, args=(store.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL and not list(store.keys("versions/mtt"))
    n = len(rows(store, "labelled"))
    outcome = mine(store, **CUT)
    assert n - 2 * 5 <= outcome.counters["rankings_read"] < n
    assert not outcome.counters["passages_read"] and parts(store) == whole


def largest_reads(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Rows of the largest table that any partition reads at once, and of all that one join of texts is given."""
    sizes, joined = [], []
    real_join = same_texts.join_texts

    @wraps(real_join)
    def join(given: partitions.Partition, run: object) -> Iterator[pa.Table]:
        joined.append(sum(part.rows for tables in given.parts.values() for part in tables))
        yield from real_join(given, run)

    with monkeypatch.context() as patched:
        patched.setattr(passage_facts, "read_part", seen(passage_facts.read_part, sizes))
        patched.setattr(Version, "part", seen(Version.part, sizes))
        patched.setattr(same_texts, "join_texts", join)
        mine(store, **CUT)
    return max(sizes), max(joined)


def test_more_passages_and_queries_are_no_more_rows_in_memory(tmp_path, monkeypatch):
    """As many rows a part of both, four times as many parts."""
    found = []
    for times in (1, 4):
        store = LocalStore(tmp_path / str(times))
        plant(store, 24 * times, 40 * times, parts=6 * times)
        found.append(largest_reads(store, monkeypatch))
    (few, few_joined), (many, many_joined) = found
    assert many <= few + 20, "a part or a shard, not the corpus"
    assert many_joined < 2 * few_joined, "of four times as many queries, in more hashes"
