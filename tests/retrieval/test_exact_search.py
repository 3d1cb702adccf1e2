"""The same rows as brute force in float64, whatever blocks, threads, precision of the screen, shards or back-end."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval.faiss_search import faiss_search
from pipeline_tasks.retrieval.screen import slack
from pipeline_tasks.retrieval.search import NO_KEY, Shard, merge, search
from pipeline_tasks.retrieval.torch_search import torch_search

K = 40


def planted(seed: int, n: int = 3000, q: int = 300, d: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors in clusters; a third of the passages are copies, some differ in the last bit of one number."""
    chance = np.random.default_rng(seed)
    passages = chance.normal(size=(n, d)) + 2 * chance.normal(size=(30, d))[chance.integers(0, 30, n)]
    passages = (passages / np.linalg.norm(passages, axis=1, keepdims=True)).astype(np.float32)
    passages[chance.integers(0, n, n // 3)] = passages[chance.integers(0, n, n // 3)]
    passages[0] = passages[1]
    passages[0, 0] = np.nextafter(passages[0, 0], np.float32(2))
    queries = passages[chance.integers(0, n, q)] + 0.05 * chance.normal(size=(q, d)).astype(np.float32)
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32), passages


def brute_force(queries: np.ndarray, passages: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Each score a float64 sum of its own, rounded to float32; equal ones in the order of the corpus."""
    wide = passages.astype(np.float64)
    scores = np.array([(wide * query.astype(np.float64)).sum(axis=1) for query in queries]).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, 1)


def keys(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


def same(found: tuple[np.ndarray, np.ndarray], truth: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_array_equal(found[0], truth[0])
    np.testing.assert_array_equal(found[1], truth[1])


@pytest.mark.parametrize("seed", range(5))
def test_equals_float64_brute_force_with_ties(seed):
    queries, passages = planted(seed)
    truth = brute_force(queries, passages, K)
    assert (np.diff(truth[1], axis=1) == 0).any(axis=1).mean() > 0.5, "ties must abound"
    for screen in ("float32", "bfloat16"):
        same(search(queries, [(passages, keys(len(passages)))], K, screen=screen), truth)


@pytest.mark.parametrize("block", [1, 63, 64, 65, 1000, 100_000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_block_nor_threads_change_a_row(block, threads):
    queries, passages = planted(7, n=700, q=40)
    truth = brute_force(queries, passages, K)
    for screen in ("float32", "bfloat16"):
        same(search(queries, [(passages, keys(700))], K, block=block, threads=threads, screen=screen), truth)


def test_neither_shards_nor_their_order_change_a_row():
    queries, passages = planted(8)
    truth = brute_force(queries, passages, K)
    cuts = [slice(0, 10), slice(10, 1500), slice(1500, 3000)]
    shards = [(passages[cut], keys(3000)[cut]) for cut in cuts]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        same(search(queries, [shards[i] for i in order], K), truth)
    apart = [search(queries, [shard], K) for shard in shards]
    assert (apart[0][0][:, 10:] == NO_KEY).all() and np.isneginf(apart[0][1][:, 10:]).all()
    same(merge(apart, K), truth)


def test_a_new_shard_merges_into_what_was_found_before():
    """What a refresh of the corpus may cost: only new passages are searched."""
    queries, passages = planted(9)
    before = search(queries, [(passages[:2900], keys(3000)[:2900])], K)
    fresh = search(queries, [(passages[2900:], keys(3000)[2900:])], K)
    same(merge([before, fresh], K), brute_force(queries, passages, K))


def by_faiss(queries: np.ndarray, shards: list[Shard], k: int) -> tuple[np.ndarray, np.ndarray]:
    found = faiss_search(queries, shards, k, "faiss")
    assert found.recall == 1
    return found.keys, found.scores


PROPOSE = [by_faiss, torch_search, partial(torch_search, devices=["cpu"] * 3, block=97)]


@pytest.mark.parametrize("search_by", PROPOSE)
def test_who_else_proposes_gives_the_same_rows(search_by):
    queries, passages = planted(10)
    found = search_by(queries, [(passages[:100], keys(100)), (passages[100:], keys(3000)[100:])], K)
    same(found, brute_force(queries, passages, K))


@pytest.mark.parametrize("search_by", PROPOSE)
def test_more_is_asked_for_where_ties_reach_beyond_what_was_proposed(search_by):
    passages = np.ones((500, 4), np.float32)
    passages[::-1][:3] = 2
    found = search_by(np.ones((2, 4), np.float32), [(passages, keys(500))], 10)
    assert found[0].tolist() == [[497, 498, 499, *range(7)]] * 2


@pytest.mark.parametrize("search_by", PROPOSE)
def test_passages_without_a_key_are_not_proposed(search_by):
    queries, passages = planted(12, n=400, q=9)
    left = np.where(np.arange(400) % 3, keys(400), -1).astype(np.int32)
    kept = left >= 0
    order, scores = brute_force(queries, passages[kept], K)
    found = search_by(queries, [(passages, left)], K)
    same(found, (left[kept][order], scores))
    with pytest.raises(InputError, match="k = 401 of 266 passages"):
        search_by(queries, [(passages, left)], 401)


def test_no_query_finds_nothing_and_the_precision_of_products_is_as_before():
    passages = planted(13, n=80, q=1)[1]
    torch.set_float32_matmul_precision("high")
    try:
        assert torch_search(passages[:0], [(passages, keys(80))], 5)[0].shape == (0, 5)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_search_says_what_recall_it_reached(kind):
    queries, passages = planted(11)
    found = faiss_search(queries, [(passages, keys(3000))], K, kind, recall=0.9)
    truth = brute_force(queries, passages, K)
    shared = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found.keys, truth[0], strict=True)])
    assert found.recall >= 0.9 and shared == pytest.approx(found.recall, abs=0.05)
    assert found.n_sampled == 200 and found.effort >= 1
    wide = passages.astype(np.float64)
    exact = np.array([(wide[row] * q.astype(np.float64)).sum(1) for row, q in zip(found.keys, queries, strict=True)])
    np.testing.assert_array_equal(found.scores, exact.astype(np.float32))


def test_all_passages_equal_costs_no_memory_and_gives_the_first():
    found, _ = search(np.ones((3, 8), np.float32), [(np.ones((5000, 8), np.float32), keys(5000))], 20, block=512)
    assert found.tolist() == [list(range(20))] * 3


def test_a_passage_without_a_key_is_left_out():
    names = keys(10)
    names[3] = -1
    found, _ = search(np.ones((1, 2), np.float32), [(np.ones((10, 2), np.float32), names)], 9)
    assert found.tolist() == [[0, 1, 2, 4, 5, 6, 7, 8, 9]]


def test_negative_scores_are_ranked_too():
    queries, passages = planted(12, n=200, q=20)
    same(search(-queries, [(passages, keys(200))], 200), brute_force(-queries, passages, 200))


def test_the_slack_holds_for_float32_products():
    queries, passages = planted(13)
    off = np.abs(queries @ passages.T - queries.astype(np.float64) @ passages.T.astype(np.float64)).max(axis=1)
    assert (off < slack(queries, passages)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_numbers_that_cannot_be_compared_are_refused(bad):
    passages = np.ones((5, 2), np.float32)
    passages[3, 1] = bad
    for queries, given in ((np.ones((1, 2), np.float32), passages), (passages, np.ones((5, 2), np.float32))):
        with pytest.raises(InputError, match="NaN, infinity"):
            search(queries, [(given, keys(5))], 1)


def test_a_shard_of_another_width_is_refused():
    with pytest.raises(InputError, match="width 2"):
        search(np.ones((1, 2), np.float32), [(np.ones((5, 3), np.float32), keys(5))], 1)


@pytest.mark.parametrize("screen", ["float32", "bfloat16"])
def test_what_is_left_out_rules_nothing_out(screen):
    """The best of the first block have no key: they must not raise what others have to reach."""
    queries, passages = planted(14)
    names = keys(3000)
    names[:K] = -1
    passages[:K] = queries[:K]
    order, scores = brute_force(queries, passages[K:], K)
    same(search(queries, [(passages, names)], K, screen=screen), (order + K, scores))


@pytest.mark.parametrize("screen", ["float32", "bfloat16"])
def test_more_ties_than_candidates_are_kept_change_no_row(screen):
    queries, passages = planted(15, n=600)
    many = np.repeat(passages, 10, axis=0)
    truth = brute_force(queries[:20], many, K)
    same(search(queries[:20], [(many, keys(6000))], K, screen=screen), truth)
    same(search(-queries[:20], [(many, keys(6000))], K, screen=screen), brute_force(-queries[:20], many, K))


@pytest.mark.parametrize("screen", ["float32", "bfloat16"])
def test_vectors_of_very_different_lengths_change_no_row(screen):
    queries, passages = planted(16)
    passages *= np.geomspace(1e-3, 1e3, 3000, dtype=np.float32)[:, None]
    for given in (passages, np.ascontiguousarray(passages[::-1])):
        same(search(queries, [(given, keys(3000))], K, screen=screen, block=500), brute_force(queries, given, K))


@pytest.mark.parametrize("seed", [7, 33])
@pytest.mark.parametrize("screen", ["float32", "bfloat16"])
def test_a_score_below_nought_that_is_rounded_down_is_not_ruled_out(screen, seed):
    """Passages that are nearly alike, asked for with their opposites, of two dimensions: where rounding decides."""
    drawn = np.random.default_rng(seed)
    passages = drawn.standard_normal((400, 2))
    passages = passages[:1] + 10.0 ** -drawn.integers(2, 6) * passages
    queries = -passages[drawn.integers(0, 400, 200)] + 1e-3 * drawn.standard_normal((200, 2))
    queries, passages = (
        (one / np.linalg.norm(one, axis=1, keepdims=True)).astype(np.float32) for one in (queries, passages)
    )
    same(search(queries, [(passages, keys(400))], 13, screen=screen), brute_force(queries, passages, 13))


def test_a_small_search_loads_no_torch():
    """Loading it takes seconds, the search some milliseconds."""
    code = (
        "import sys, numpy as np; from pipeline_tasks.retrieval.search import top_k;"
        "top_k(np.eye(4), np.eye(4), 2); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
