"""``mutual_agreement`` in blocks: the same labels however they are cut, repeated only where something changed."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation import mutual_agreement as module
from pipeline_tasks.curation import passage_facts
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from tests.curation.mined_store import MODELS, plant
from tests.curation.watched import deadly, seen
from tests.forked import forked
from tests.stores import put, rejects, rows

CUT = {"block_queries": 5, "shard_passages": 30}
MOST = 4
ORIGINS = ("dm", "gd/one", "gd/one", "gd/two", "dm")


def grown(root: Path, times: int = 1) -> LocalStore:
    """Pairs of several origins, of one of them more than the cap; models share many of their best passages."""
    store = LocalStore(root)
    plant(store, 30 * times, 40 * times, parts=3 * times)
    version = Version.open(store, Ref.parse("mtp"))
    parts = [table.to_pylist() for table in version.parts()]
    for at, row in enumerate(row for part in parts for row in part):
        row["origin"] = ORIGINS[at % len(ORIGINS)]
    put(store, PAIRS, *parts, dataset="mtp")
    return store


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return grown(tmp_path / "store")


def agree(store: LocalStore, *, workers: int = 1, **params: object) -> Outcome:
    values = {"strategy": "mutual", "models": MODELS, "top_n": 8, "most_general": MOST} | params
    return run_job(store, plan(store, mutual_agreement, values), workers=workers)


def made(store: LocalStore) -> list[str]:
    manifest = Version.open(store, Ref.parse("labelled")).manifest
    return [part.sha256 for part in (*manifest.parts, *manifest.rejects)]


@pytest.fixture
def whole(tmp_path: Path) -> list[str]:
    """Parts of the version that one process makes in one block."""
    store = grown(tmp_path / "whole")
    agree(store)
    return made(store)


def plain(store: LocalStore, top_n: int = 8, most: int = MOST) -> tuple[dict[str, str], dict[str, str]]:
    """Positives of the queries that are kept, and reasons of the others: one query after another, all in memory."""
    pairs = rows(store, "mtp")
    split = {row["positive_id"]: row["split"] for row in pairs}
    split |= {row["passage_id"]: row["split"] for row in rows(store, "passages")}
    tops = [{row["query_id"]: row["passage_ids"][:top_n] for row in rows(store, f"rankings/{m}")} for m in MODELS]
    kept, refused = {}, {}
    for row in pairs:
        query, shared = row["query_id"], set.intersection(*(set(top[row["query_id"]]) for top in tops))
        general = row["origin"] != "dm"
        first = next((name for name in tops[0][query] if name in shared), None)
        positive = row["positive_id"] if general else first
        if row["split"] == "test":
            refused[query] = "held_out"
        elif positive is None:
            refused[query] = "no_agreement"
        elif split[positive] != row["split"]:
            refused[query] = "positive_held_out"
        else:
            kept[query] = positive
    for origin in {row["origin"] for row in pairs} - {"dm"}:
        mine = [row["query_id"] for row in pairs if row["origin"] == origin and row["query_id"] in kept]
        order = sorted(zip(text_hashes(pa.array(mine, pa.string())).tolist(), mine, strict=True))
        refused |= {query: "over_cap" for _, query in order[most:]}
    return {query: positive for query, positive in kept.items() if query not in refused}, refused


def test_it_keeps_what_a_plain_loop_keeps(store):
    agree(store, **CUT)
    kept, refused = plain(store)
    labelled = rows(store, "labelled")
    assert [(row["query_id"], row["positive_id"]) for row in labelled] == list(kept.items())
    assert {query: row["reason"] for query, row in rejects(store, "labelled").items()} == refused
    assert set(refused.values()) == {"held_out", "no_agreement", "positive_held_out", "over_cap"} and len(kept) > 5
    text = {row["positive_id"]: row["positive"] for row in rows(store, "mtp")}
    text |= {row["passage_id"]: row["text"] for row in rows(store, "passages")}
    assert [row["positive"] for row in labelled] == [text[row["positive_id"]] for row in labelled]


@pytest.mark.parametrize(
    ("cut", "workers"), [({"block_queries": 3}, 1), ({"block_queries": 9, "shard_passages": 5}, 1), (CUT, 2)]
)
def test_neither_blocks_nor_processes_have_a_say_in_the_bytes(store, whole, cut, workers):
    agree(store, workers=workers, **cut)
    assert made(store) == whole


def test_labels_that_span_blocks_lie_in_parts_of_one_size(store, monkeypatch):
    monkeypatch.setattr(module, "_LABEL_BLOCK", 3)
    agree(store, **CUT)
    sizes = [part.rows for part in Version.open(store, Ref.parse("labelled")).manifest.parts]
    assert len(sizes) > 2 and sizes[:-1] == [3] * (len(sizes) - 1) and 0 < sizes[-1] <= 3
    assert [row["query_id"] for row in rows(store, "labelled")] == list(plain(store)[0])


def test_the_counters_are_of_all_blocks_however_they_were_cut(store, tmp_path):
    """Of origins of which nothing is kept as well."""
    one = agree(store, most_general=0).counters
    two = agree(grown(tmp_path / "other"), most_general=0, **CUT).counters
    told = {name: n for name, n in one.items() if name.startswith(("kept_of", "own_positives"))}
    assert told == {name: two[name] for name in told} and len(told) == 6
    assert told["kept_of_origin/gd/one"] == told["kept_of_origin/gd/two"] == 0 < told["kept_of_origin/dm"]


def test_where_nothing_is_kept_the_version_has_a_part_without_rows(store):
    put(store, PAIRS, [row | {"split": "test"} for row in rows(store, "mtp")], dataset="mtp")
    agree(store, **CUT)
    assert rows(store, "labelled") == [] and {row["reason"] for row in rejects(store, "labelled").values()} == {
        "held_out"
    }


def test_a_passage_among_the_best_that_is_none_is_named(store):
    ranked = rows(store, "rankings/two")
    asked = {row["query_id"] for row in rows(store, "mtp") if row["split"] != "test"}
    at = next(at for at, row in enumerate(ranked) if row["query_id"] in asked)
    ranked[at]["passage_ids"][3] = "gone"
    put(store, RANKINGS, ranked, dataset="rankings/two")
    with pytest.raises(InputError, match="rankings/two@.* ranks gone, .* here; run embed_passages, then"):
        agree(store, **CUT)


def test_pairs_without_parts_are_refused(store):
    put(store, PAIRS, dataset="mtp")
    with pytest.raises(InputError, match="mtp@.* has no parts"):
        agree(store)


def refreshed(store: LocalStore) -> None:
    """Each dataset gets one more part; the new query's passages are named by no other."""
    new = {
        "query_id": "new",
        "query": "a new one?",
        "intent": "qa",
        "split": "train",
        "passage_id": "p0",
        "origin": "dm",
    }
    more = {
        "passages": (PASSAGES, {"passage_id": "p-new", "text": "a new text", "split": "train"}),
        "mtp": (PAIRS, new | {"positive_id": "g-new", "positive": "its answer"}),
    }
    for model in MODELS:
        ranked = {"query_id": "new", "passage_ids": ["p-new", "g-new", "p1"], "scores": [0.9, 0.5, 0.4]}
        more[f"rankings/{model}"] = (RANKINGS, ranked)
    for name, (schema, row) in more.items():
        version = Version.open(store, Ref.parse(name))
        put(store, schema, *(table.to_pylist() for table in version.parts()), [row], dataset=name)


def test_a_refresh_reads_the_rankings_of_new_queries_and_no_others(store):
    """Blocks and shards smaller than a part: what is added makes some of its own."""
    cut = {"block_queries": 4, "shard_passages": 1}
    first = agree(store, **cut)
    asked = [row for row in rows(store, "mtp") if row["split"] != "test"]
    assert first.counters["rankings_read"] == len(asked) * len(MODELS)
    refreshed(store)
    second = agree(store, **cut)
    assert second.counters["rankings_read"] == len(MODELS)
    assert second.counters["passages_read"] == 2, "the new passage and the new generated positive"
    assert {row["query_id"]: row["positive_id"] for row in rows(store, "labelled")} == plain(store)[0]
    assert plain(store)[0]["new"] == "p-new"


def test_another_cap_reads_no_ranking_and_another_strategy_only_where_it_asks_for_more(store):
    agree(store, **CUT)
    again = agree(store, most_general=2, **CUT)
    assert not again.counters["rankings_read"] and not again.counters["passages_read"]
    assert {row["query_id"]: row["positive_id"] for row in rows(store, "labelled")} == plain(store, most=2)[0]
    assert not agree(store, strategy="identical", **CUT).counters["rankings_read"], "it asks for the same top N"
    assert agree(store, strategy="none", **CUT).counters["rankings_read"], "the own positive is looked for in all ranks"


def killed_in_its_third_block(root: Path) -> None:
    module.hear = deadly(module.hear)
    agree(LocalStore(root), **CUT)


def test_a_killed_run_goes_on_with_the_block_that_is_missing(store, whole):
    before = list(store.keys("versions/labelled"))
    process = forked().Process(target=killed_in_its_third_block, args=(store.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL and list(store.keys("versions/labelled")) == before
    asked = [row for row in rows(store, "mtp") if row["split"] != "test"]
    outcome = agree(store, **CUT)
    assert (len(asked) - 2 * 5) * len(MODELS) <= outcome.counters["rankings_read"] < len(asked) * len(MODELS)
    assert not outcome.counters["passages_read"] and made(store) == whole


def largest_read(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of the largest table that is read at once."""
    sizes = []
    with monkeypatch.context() as patched:
        patched.setattr(passage_facts, "read_part", seen(passage_facts.read_part, sizes))
        patched.setattr(Version, "part", seen(Version.part, sizes))
        agree(store, **CUT)
    return max(sizes)


def test_more_passages_and_queries_are_no_more_rows_in_memory(tmp_path, monkeypatch):
    """As many rows a part of both, four times as many parts."""
    few, many = (largest_read(grown(tmp_path / str(times), times), monkeypatch) for times in (1, 4))
    assert many <= few + 20, "a part or a shard, not the corpus"
