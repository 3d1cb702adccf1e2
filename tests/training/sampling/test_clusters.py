"""Clusters are of subjects: k-means finds the words that passages were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.encoders.trunk import load_tokenizer
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.sampling.clusters import clusters
from tests.shapes import FILLERS, TOPICS

VOCABULARY = 1000
N_SUBJECTS, EACH = 4, 30


def text(subject: int, variant: int) -> str:
    """Three of the five words of a subject, and words that all passages have."""
    random = np.random.default_rng([subject, variant])
    own = random.choice(TOPICS[5 * subject : 5 * subject + 5], 3, replace=False)
    return " ".join([*random.choice(FILLERS, 4), *own])


@pytest.fixture
def read(tiny_bert: Path, tmp_path: Path):
    tokenizer = TextTokens(load_tokenizer(tiny_bert).backend_tokenizer)

    def rows(name: str, positives: list[str], queries: list[str] | None = None, **more) -> Rows:
        asked = queries or [f"{name} {i}" for i in range(len(positives))]
        lengths = {"max_query_length": 16, "max_passage_length": 32}
        return tokenized(Examples.of(asked, positives, **more), tokenizer, tmp_path / name, **lengths)

    return rows


SUBJECTS = np.repeat(np.arange(N_SUBJECTS), EACH)
TEXTS = [text(subject, variant) for variant, subject in enumerate(SUBJECTS)]


def purity(found: np.ndarray, subjects: np.ndarray) -> float:
    table = np.zeros((found.max() + 1, subjects.max() + 1))
    np.add.at(table, (found, subjects), 1)
    return table.max(axis=1).sum() / len(found)


def test_a_cluster_has_passages_of_one_subject(read) -> None:
    found, sources, of_row = clusters(read("train", TEXTS), N_SUBJECTS, VOCABULARY, 0)
    assert sources == [""] * N_SUBJECTS
    assert purity(of_row, SUBJECTS) > 0.9
    np.testing.assert_allclose(np.linalg.norm(found.centres, axis=1), 1, rtol=1e-5)


def test_the_seed_decides(read) -> None:
    data = read("train", TEXTS)
    first, again, other = (clusters(data, 8, VOCABULARY, seed)[2] for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_each_source_is_divided_by_itself_into_no_more_clusters_than_it_has_passages(read) -> None:
    positives = TEXTS + TEXTS[:2] * 10
    data = read("train", positives, sources=["large"] * len(TEXTS) + ["small"] * 20)
    found, sources, of_row = clusters(data, N_SUBJECTS, VOCABULARY, 0)
    assert sources == ["large"] * N_SUBJECTS + ["small"] * 2
    assert set(of_row[: len(TEXTS)]) == set(range(N_SUBJECTS))
    assert of_row[len(TEXTS) :].tolist() == [of_row[-2], of_row[-1]] * 10
    assert len(found.centres) == 6


def test_shares_are_of_queries_whatever_the_number_of_their_passages(read) -> None:
    found, _, of_row = clusters(read("train", TEXTS), N_SUBJECTS, VOCABULARY, 0)
    at = [np.bincount(of_row[subject == SUBJECTS]).argmax() for subject in range(N_SUBJECTS)]
    positives = [text(0, 100), text(1, 101), text(1, 102), text(1, 103), text(1, 104)]
    target = read("target", positives, ["a", "b", "c", "c", "c"])
    shares = found.shares(target)
    np.testing.assert_allclose([shares[at[0]], shares[at[1]], shares.sum()], [1 / 3, 2 / 3, 1])


def test_passages_without_any_word_that_tells_them_apart_are_one_cluster(read) -> None:
    data = read("train", [TEXTS[0]] * 8)
    _, sources, of_row = clusters(data, N_SUBJECTS, VOCABULARY, 0)
    assert sources == [""]
    assert of_row.tolist() == [0] * 8
