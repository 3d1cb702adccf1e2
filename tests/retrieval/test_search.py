import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval.search import search, top_k


def brute_force(queries, passages, k):
    scores = queries.astype(np.float64) @ passages.astype(np.float64).T
    order = np.array([sorted(range(len(passages)), key=lambda i: (-row[i], i))[:k] for row in scores])
    return order, np.take_along_axis(scores, order, 1)


def in_blocks(queries, passages, k, block):
    shard = np.asarray(passages, np.float32), np.arange(len(passages), dtype=np.int32)
    return search(np.asarray(queries, np.float32), [shard], k, block=block)


@pytest.mark.parametrize("block", [1, 7, 50, 1000])
@pytest.mark.parametrize("k", [1, 20, 200])
def test_agrees_with_float64_brute_force_where_ties_abound(block, k):
    """Small whole numbers: every inner product is exact, and most scores are shared by many passages."""
    rng = np.random.default_rng(k)
    queries, passages = rng.integers(-2, 3, (30, 8)), rng.integers(-2, 3, (200, 8))
    wanted, wanted_scores = brute_force(queries, passages, k)
    for indices, scores in (top_k(queries, passages, k), in_blocks(queries, passages, k, block)):
        np.testing.assert_array_equal(indices, wanted)
        np.testing.assert_array_equal(scores, wanted_scores)
    indices, scores = top_k(queries, passages, k)
    assert (indices.dtype, scores.dtype) == (np.int64, np.float32)


def test_agrees_with_float64_brute_force_on_unit_vectors():
    rng = np.random.default_rng(0)
    queries, passages = rng.normal(size=(600, 32)), rng.normal(size=(3000, 32))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    indices, scores = in_blocks(queries, passages, 50, 700)
    wanted, wanted_scores = brute_force(queries, passages, 50)
    np.testing.assert_allclose(scores, wanted_scores, atol=1e-6)
    assert (indices == wanted).mean() > 0.999


def test_equal_scores_come_in_the_order_of_the_corpus():
    indices, _ = in_blocks(np.ones((1, 2)), np.ones((9, 2)), 4, 2)
    assert indices.tolist() == [[0, 1, 2, 3]]


def test_no_query_is_no_row():
    indices, scores = top_k(np.empty((0, 3)), np.ones((5, 3)), 2)
    assert indices.shape == scores.shape == (0, 2)


@pytest.mark.parametrize("k", [0, 6])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(InputError, match=f"k = {k} of 5 passages"):
        top_k(np.ones((1, 2)), np.ones((5, 2)), k)


def test_widths_that_differ_are_refused():
    with pytest.raises(InputError, match=r"\(1, 2\).*\(5, 3\)"):
        top_k(np.ones((1, 2)), np.ones((5, 3)), 1)


def test_a_vector_that_is_not_finite_is_refused():
    passages = np.ones((5, 2))
    passages[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        top_k(np.ones((1, 2)), passages, 1)
