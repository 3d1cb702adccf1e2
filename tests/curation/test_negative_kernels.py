"""The compiled rule against a plain loop, with every way in which a candidate can be passed over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.curation.id_table import HashTable, IdTable, strings, text_hashes
from pipeline_tasks.curation.mine_negatives import MineNegativesParams
from pipeline_tasks.curation.negative_kernels import bound, choose, low_enough
from pipeline_tasks.curation.negative_rules import (
    SKIPS,
    Candidates,
    Chosen,
    KnownPositives,
    Low,
    MiningQueries,
    Ranked,
    Rules,
    groups,
)

POSITIVE = "p"


def chosen(scores, positive, texts=None, split=None, known=(), **params):
    """Places of the candidates chosen for one query, and what was passed over; ``positive`` None: look it up."""
    rules = MineNegativesParams(**params)
    names = [f"c{i}" for i in range(len(scores))]
    table, codes = HashTable.of(text_hashes(pa.array([POSITIVE, *names])))
    hashes = text_hashes(pa.array(["the answer", *(texts or names)]))
    splits = np.array([0, *(split or [0] * len(scores))], np.int8)
    zero = np.zeros(1, np.int32)
    asked = MiningQueries(zero, np.array([positive], np.float32), zero, splits[:1], splits[:1])
    ranked = Ranked(strings(pa.array(names, pa.string())), np.array(scores, np.float32), np.array([0, len(scores)]))
    ranked.scores.setflags(write=False)
    n = len(scores)
    low = Low(
        np.empty(n, np.uint64), np.empty(n, np.float32), zero.copy(), np.zeros(1, bool), np.zeros((1, 6), np.int64)
    )
    n = low_enough(
        zero, ranked, asked, IdTable.of(pa.array([POSITIVE])), Rules.of(rules.values), np.full(1, n, np.int32), low
    )
    assert low.n[0] == n and not low.cut[0]
    found = Chosen.empty(1, rules.n_negatives, 1)
    starts, known = groups(np.zeros(len(known) + 1, np.int32), [codes[[0, *(i + 1 for i in known)]]], 1)
    candidates = Candidates(table.numbers(low.hashes[:n]), low.scores, np.array([0, n]))
    assert choose(candidates, asked, KnownPositives(hashes, splits, starts, known), found) == -1
    skipped = low.skipped[0] + found.skipped[0]
    n = found.n[0]
    np.testing.assert_array_equal(found.scores[0, :n], np.float32(scores)[found.codes[0, :n] - 1])
    assert (found.codes[0, n:] == -1).all()
    return (found.codes[0, :n] - 1).tolist(), dict(zip(SKIPS, skipped.tolist(), strict=True))


def test_the_first_k_below_the_margin_in_rank_order():
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert chosen(scores, 0.9, alpha=0.75, n_negatives=2)[0] == [3, 4]
    assert chosen(scores, 0.9, alpha=0.95, n_negatives=2)[0] == [1, 2]
    assert chosen(scores, 0.9, alpha=0.75, n_negatives=9)[0] == [3, 4, 5]
    assert chosen(scores, 0.4, alpha=0.9)[0] == []


def test_a_score_at_the_margin_is_excluded():
    """0.75 * 0.8 in float32, and the float32 numbers next to it."""
    margin = np.float32(0.75) * np.float32(0.8)
    above, below = (float(np.nextafter(margin, np.float32(to))) for to in (1, 0))
    assert chosen([above, float(margin), below], 0.8, alpha=0.75)[0] == [2]


@pytest.mark.parametrize(("positive", "expected"), [(0.4, 0.3), (0.0, 0.0), (-0.4, -0.5)])
def test_the_bound_is_never_above_the_positive(positive, expected):
    found = bound(np.float32(positive), Rules.of(MineNegativesParams(alpha=0.75).values))
    assert found == pytest.approx(expected) and found <= np.float32(positive)


def test_a_positive_below_zero_does_not_turn_the_rule_round():
    assert chosen([0.1, -0.2, -0.3, -0.45, -0.6], -0.4, alpha=0.75)[0] == [4]


def test_each_variant_passes_over_what_it_is_for():
    scores = [0.8, 0.7, 0.6, 0.5, 0.4]
    assert chosen(scores, 0.9, alpha=1.0, absolute_margin=0.25) == ([2, 3, 4], skips(within_margin=2))
    assert chosen(scores, 0.9, alpha=1.0, max_score=0.45) == ([4], skips(above_max_score=4))
    assert chosen(scores, 0.9, alpha=1.0, min_rank=2, max_rank=3) == ([1, 2], skips())
    assert chosen(scores, 0.9, alpha=0.7) == ([2, 3, 4], skips(too_similar=2))
    assert chosen(scores, 0.9, alpha=1.0, known=(1, 3)) == ([0, 2, 4], skips(known_positive=2))
    assert chosen(scores, 0.9, alpha=1.0, split=[1, 0, 2, 0, 0]) == ([1, 3, 4], skips(other_split=2))
    texts = ["a", "the answer", "b", "b", "c"]
    assert chosen(scores, 0.9, texts, alpha=1.0) == ([0, 2, 3, 4], skips(duplicate_of_positive=1))
    of_known = chosen(scores, 0.9, texts, alpha=1.0, known=(2,))
    assert of_known == ([0, 4], skips(duplicate_of_positive=2, known_positive=1))


def skips(**counts: int) -> dict[str, int]:
    return dict.fromkeys(SKIPS, 0) | counts


@settings(max_examples=150)
@given(
    scores=st.lists(st.floats(-1, 1, width=32), max_size=40).map(lambda s: sorted(s, reverse=True)),
    positive=st.floats(-1, 1, width=32),
    data=st.data(),
)
def test_against_a_plain_loop(scores, positive, data):
    n = len(scores)
    split = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    texts = data.draw(st.lists(st.sampled_from(["the answer", "a", "b"]), min_size=n, max_size=n))
    known = data.draw(st.sets(st.integers(0, n - 1), max_size=4)) if n else set()
    params = MineNegativesParams(
        alpha=data.draw(st.floats(0.1, 1)),
        n_negatives=data.draw(st.integers(1, 10)),
        absolute_margin=data.draw(st.sampled_from([0.0, 0.1])),
        max_score=data.draw(st.sampled_from([1.0, 0.5])),
        min_rank=(first := data.draw(st.integers(1, 5))),
        max_rank=data.draw(st.integers(first, 50)),
    )
    expected, told = [], {"the answer", *(texts[i] for i in known)}
    limit = np.float32(params.alpha) * np.float32(positive)
    if positive <= 0:
        limit = (np.float32(2) - np.float32(params.alpha)) * np.float32(positive)
    for i, score in enumerate(np.float32(scores)):
        may = split[i] == 0 and texts[i] not in told
        far = score < limit and score <= np.float32(positive) - np.float32(params.absolute_margin)
        inside = params.min_rank <= i + 1 <= params.max_rank
        if may and far and inside and (params.max_score == 1 or score <= np.float32(params.max_score)):
            expected.append(i)
    found, _ = chosen(scores, positive, texts, split, tuple(known), **params.model_dump(exclude={"models"}))
    assert found == expected[: params.n_negatives]


@given(st.lists(st.text(max_size=20), max_size=60), st.lists(st.text(max_size=20), max_size=20))
def test_ids_are_numbered_as_a_dictionary_would(ids, others):
    table = IdTable.of(pa.array(ids, pa.string()))
    numbers: dict[str, int] = {}
    for number, name in enumerate(ids):
        numbers.setdefault(name, number)
    asked = ids + others
    assert table.numbers(pa.array(asked, pa.string())).tolist() == [numbers.get(name, -1) for name in asked]
    sliced = pa.array(["x", *asked], pa.large_string())[1:]
    assert table.numbers(sliced).tolist() == [numbers.get(name, -1) for name in asked]


@given(st.lists(st.text(max_size=20), max_size=60))
def test_texts_share_a_hash_only_where_they_are_equal(texts):
    assert len(set(text_hashes(pa.array(texts, pa.string())).tolist())) == len(set(texts))
