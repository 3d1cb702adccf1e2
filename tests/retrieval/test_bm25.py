import math

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval.bm25 import Bm25, count_asked

PASSAGES = [
    "Floods rise when rivers leave their banks.",
    "A tornado is a rotating column of air.",
    "Store water before a hurricane; floods may follow the hurricane.",
    "The committee met on Tuesday.",
    "A tornado is a rotating column of air.",
]


def test_scores_follow_the_formula():
    """Lucene's BM25 by hand: idf = ln(1 + (n - df + .5) / (df + .5)), tf / (tf + k1 (1 - b + b len / mean len))."""
    scores = Bm25(["flood river", "flood flood warning siren", "tornado"]).scores("flood")
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    mean = (2 + 4 + 1) / 3
    wanted = [idf * tf / (tf + 1.5 * (0.25 + 0.75 * length / mean)) for tf, length in ((1, 2), (2, 4), (0, 1))]
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_best_first_and_equal_passages_in_their_order():
    indices, scores, _ = Bm25(PASSAGES).search(["tornado air", "hurricane floods"], 3)
    assert indices[0].tolist() == [1, 4, 0]
    assert indices[1].tolist() == [2, 0, 1]
    assert scores[0, 0] == scores[0, 1] > scores[0, 2] == 0
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("query", ["", "the of", "zyzzyva", "!!!"])
def test_a_query_without_known_words_scores_0_everywhere(query):
    indices, scores, _ = Bm25(PASSAGES).search([query], 5)
    assert indices.tolist() == [[0, 1, 2, 3, 4]]
    assert not scores.any()


def test_passages_without_words_can_be_searched():
    assert Bm25(["the", "...", ""]).search(["flood"], 2).indices.tolist() == [[0, 1]]


def test_no_passages_and_too_many_results_are_refused():
    with pytest.raises(InputError, match="no passages"):
        Bm25([])
    with pytest.raises(InputError, match="k = 9 of 5"):
        Bm25(PASSAGES).search(["flood"], 9)


@pytest.mark.parametrize("cuts", [[], [1, 1, 90], [150]])
def test_postings_of_what_is_asked_rank_and_score_as_all_do_whatever_the_blocks_and_their_order(cuts):
    chance = np.random.default_rng(5)
    words = [letter + "x" for letter in "abcdefghijklmnop"]
    texts, queries = (
        [" ".join(chance.choice(words[:n], 1 + i % (n // 2))) for i in range(m)] for n, m in ((16, 200), (6, 40))
    )
    queries += ["", "unknown", "ax ax unknown"]
    blocks = [(at, [texts[place] for place in at]) for at in np.split(chance.permutation(200), cuts)]
    asked = count_asked(queries, blocks)
    found, whole = (Bm25(of).search(queries, 30) for of in (asked, texts))
    np.testing.assert_array_equal(found.indices, whole.indices)
    np.testing.assert_array_equal(found.scores, whole.scores)
    assert {*asked.words.to_pylist()} == {*words[:6], "unknown"}, "others are not held"


def test_the_scores_are_those_of_the_library_and_ties_go_by_place():
    import bm25s

    chance = np.random.default_rng(3)
    words = [letter + "x" for letter in "abcdefghijkl"]
    texts, queries = ([" ".join(chance.choice(words, n)) for _ in range(m)] for n, m in ((9, 400), (3, 60)))
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(bm25s.tokenize(texts, stopwords="en", return_ids=False, show_progress=False), show_progress=False)
    own = np.arange(60) * 6
    found = Bm25(texts).search(queries, 25, own)
    for row, query in enumerate(queries):
        scores = index.get_scores(query.split())
        order = np.lexsort((np.arange(400), -scores))[:25]
        assert found.indices[row].tolist() == order.tolist()
        np.testing.assert_allclose(found.scores[row], scores[order], rtol=1e-6)
        assert found.own_scores[row] == pytest.approx(scores[own[row]], rel=1e-6)
