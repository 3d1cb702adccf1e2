"""Batch plans hold every row once, whatever the keys; micro-batches hold little padding."""

import time

import numpy as np
import pytest

from pipeline_tasks.training.compute.batches import _linked, micro_batches, plan_batches, row_groups


@pytest.mark.parametrize(("n", "batch_size"), [(0, 4), (1, 4), (8, 4), (33, 32), (1000, 7)])
@pytest.mark.parametrize("n_keys", [0, 1, 3, 500])
def test_every_row_once_in_even_batches(n: int, batch_size: int, n_keys: int) -> None:
    apart = [np.random.default_rng(1).integers(n_keys, size=n)] if n_keys else []
    batches = plan_batches(n, batch_size, seed=3, epoch=0, apart=apart)
    sizes = [len(batch) for batch in batches]
    assert len(batches) == -(-n // batch_size)
    assert sorted(np.concatenate([*batches, []]).tolist()) == list(range(n))
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_plan_follows_seed_and_epoch_only() -> None:
    def plan(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in plan_batches(50, 8, seed, epoch)]

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(1, 1)
    assert plan(1, 0) != plan(2, 0)


def test_equal_keys_never_share_a_batch_where_they_need_not() -> None:
    positives = np.arange(600) // 6
    queries = np.where(np.arange(600) % 6 == 0, (np.arange(600) // 12) * 12, np.arange(600))
    for epoch in range(5):
        for batch in plan_batches(600, 32, 0, epoch, [queries, positives]):
            assert len(set(positives[batch].tolist())) == len(batch)
            assert len(set(queries[batch].tolist())) == len(batch)


@pytest.mark.parametrize("n_keys", [1, 30, 300, 3_000])
def test_linked_rows_are_called_by_the_first_of_them(n_keys: int) -> None:
    random = np.random.default_rng(n_keys)
    keys = [random.integers(n_keys, size=300) for _ in range(3)]
    assert _linked(keys).tolist() == joined(keys)


def test_a_chain_of_links_is_followed_to_its_end_at_once() -> None:
    """Row by row it would take a round for each: minutes."""
    n = 200_000
    rows = np.random.default_rng(0).permutation(n)
    began = time.process_time()
    assert not _linked([rows // 2, (rows + 1) // 2]).any()
    assert time.process_time() - began < 10
    rows = np.random.default_rng(1).permutation(500)
    few = [rows // 2 * (rows % 50 > 0), (rows + 1) // 2]
    assert _linked(few).tolist() == joined(few)


def joined(keys: list[np.ndarray]) -> list[int]:
    """The lowest row that each is linked with, by joining sets."""
    parent = list(range(len(keys[0])))

    def lowest(row: int) -> int:
        while parent[row] != row:
            row = parent[row]
        return row

    for key in keys:
        first: dict[int, int] = {}
        for row, value in enumerate(key.tolist()):
            one, other = lowest(row), lowest(first.setdefault(value, row))
            parent[max(one, other)] = min(one, other)
    return [lowest(row) for row in range(len(parent))]


def test_one_key_for_all_still_plans_all_rows() -> None:
    batches = plan_batches(40, 8, 0, 0, [np.zeros(40, dtype=int)])
    assert [len(batch) for batch in batches] == [8] * 5


def test_rows_of_a_unit_meet_and_units_that_share_a_key_do_not() -> None:
    """Units of three rows; each shares its query with the unit beside it, as two tuples of one query do."""
    units = np.random.default_rng(0).permutation(np.arange(300) // 3)
    queries = units // 2
    for epoch in range(3):
        batches = plan_batches(300, 24, 0, epoch, [queries], units)
        assert sorted(np.concatenate(batches).tolist()) == list(range(300))
        assert {len(batch) for batch in batches} <= {21, 24}
        for batch in batches:
            found, n_rows = np.unique(units[batch], return_counts=True)
            assert set(n_rows.tolist()) == {3}
            assert len(set((found // 2).tolist())) == len(found)


@pytest.mark.parametrize(("n", "batch_size"), [(0, 4), (1, 4), (9, 2), (9, 1), (9, 100)])
def test_few_units_still_fill_all_batches(n: int, batch_size: int) -> None:
    batches = plan_batches(n, batch_size, 0, 0, [np.arange(n)], np.arange(n) // 3)
    assert len(batches) == -(-n // batch_size) and all(map(len, batches))
    assert sorted(np.concatenate([*batches, []]).tolist()) == list(range(n))


def test_micro_batches_keep_to_the_budget_and_pad_little() -> None:
    lengths = np.random.default_rng(0).integers(8, 257, size=400)
    pieces = micro_batches(lengths, 2048)
    padded = sum(len(piece) * lengths[piece].max() for piece in pieces)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(400))
    assert all(len(piece) * lengths[piece].max() <= 2048 for piece in pieces)
    assert all(2 * lengths[piece].min() >= lengths[piece].max() for piece in pieces)
    assert padded < 1.1 * lengths.sum()


def test_text_beyond_the_budget_stands_alone() -> None:
    pieces = micro_batches(np.array([10, 900, 12]), 100)
    assert [piece.tolist() for piece in pieces] == [[1], [2, 0]]


def test_row_groups_are_in_order_and_within_budget() -> None:
    groups = row_groups(np.array([50, 60, 30, 200, 10]), 100)
    assert [group.tolist() for group in groups] == [[0], [1, 2], [3], [4]]
