"""A rotation after pooling: whole vectors keep their cosines, their first dimensions tell as much as they can."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.order_dimensions import order_dimensions, principal_axes
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

START = ("model/22m/pretrain",)


def passages(n: int, split: str = "train") -> list[dict]:
    return [
        {"passage_id": f"{split}{i:03}", "doc_id": f"d{i}", "text": passage(i % len(TOPICS), i // len(TOPICS)),
         "split": split}
        for i in range(n)
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path, tiny_bert) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    layout = Layout("mean", 32, prefixes={"passage": "wb ", "query": "wa "})
    export(load(tiny_bert), tmp_path / "start", card={}, layout=layout)
    put_model(store, tmp_path / "start", START[0])
    put(store, PASSAGES, passages(60) + passages(10, "test"))
    return store


def vectors(store: LocalStore, ref: Ref | str, scratch) -> tuple[np.ndarray, np.ndarray]:
    folder = Version.open(store, ref if isinstance(ref, Ref) else Ref.parse(ref)).lay_out(scratch)
    encoder = load_encoder(folder, scratch, threads=1)
    topics = range(len(TOPICS))
    return encoder.encode_queries([query(t) for t in topics]), encoder.encode_passages([passage(t) for t in topics])


def test_whole_vectors_keep_their_cosines_and_first_ones_are_nearer_to_them(store, tmp_path):
    made = go(store, order_dimensions, size="22m", start_from=START)
    before, after = vectors(store, START[0], tmp_path / "before"), vectors(store, made.ref, tmp_path / "after")
    whole = before[0] @ before[1].T
    np.testing.assert_allclose(after[0] @ after[1].T, whole, atol=1e-5)
    for n in (2, 4, 8):
        lost = [np.square(q[:, :n] @ p[:, :n].T - whole).sum() for q, p in (before, after)]
        assert lost[1] < lost[0] / 2
    assert 0.5 < made.counters[f"share_of_first_{before[0].shape[1] // 2}"] <= 1


def test_it_is_asked_as_before_and_says_what_it_was_ordered_by(store, tmp_path):
    made = go(store, order_dimensions, size="22m", start_from=START)
    folder = Version.open(store, made.ref).lay_out(tmp_path / "laid")
    assert layout_of(folder).prefixes == layout_of(tmp_path / "start").prefixes
    modules = [module["path"] for module in json.loads((folder / "modules.json").read_text())]
    assert modules == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    assert "| ordered by | passages@" in (folder / "README.md").read_text()


def test_an_ordered_model_that_is_ordered_again_has_one_rotation(store, tmp_path):
    go(store, order_dimensions, size="22m", start_from=START)
    again = go(store, order_dimensions, size="22m", start_from=("model/22m/ordered",))
    folder = Version.open(store, again.ref).lay_out(tmp_path / "laid")
    (rotation,) = layout_of(folder).projection
    np.testing.assert_allclose(rotation.weights @ rotation.weights.T, np.eye(len(rotation.weights)), atol=1e-5)


def test_cut_vectors_are_the_first_numbers_of_whole_ones_of_length_1_again(store, tmp_path):
    whole = go(store, order_dimensions, size="22m", start_from=START).ref
    short = go(store, order_dimensions, size="22m", start_from=START, dims=6)
    for found, wanted in zip(
        vectors(store, short.ref, tmp_path / "short"), vectors(store, whole, tmp_path / "whole"), strict=True
    ):
        first = wanted[:, :6] / np.linalg.norm(wanted[:, :6], axis=1, keepdims=True)
        np.testing.assert_allclose(found, first, atol=1e-5)
    assert 0 < short.counters["share_of_first_6"] < 1
    with pytest.raises(InputError, match=r"dims=999, but 22m has \d+ dimensions: choose fewer"):
        go(store, order_dimensions, size="22m", start_from=START, dims=999)


def test_only_passages_to_train_on_decide(store):
    first = go(store, order_dimensions, size="22m", start_from=START)
    put(store, PASSAGES, passages(60) + passages(40, "test"), version="1" * 16)
    other = go(store, order_dimensions, size="22m", start_from=START)
    assert first.counters["passages"] == other.counters["passages"] == 60


def test_fewer_passages_than_dimensions_are_refused(store):
    with pytest.raises(InputError, match=r"5 passages to train on for \d+ dimensions: as many.*; raise n_passages=5"):
        go(store, order_dimensions, size="22m", start_from=START, n_passages=5)
    put(store, PASSAGES, passages(4) + passages(60, "test"))
    with pytest.raises(
        InputError, match=r"4 passages to train on .*; passages@[0-9a-f]{16} has no more, so take a larger"
    ):
        go(store, order_dimensions, size="22m", start_from=START)


def test_axes_are_those_of_the_second_moments_largest_first():
    """Against the singular vectors of all vectors together."""
    given = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32) * np.arange(1, 7)
    axes, shares = principal_axes([given[:20], given[20:]])
    _, lengths, wanted = np.linalg.svd(given, full_matrices=False)
    np.testing.assert_allclose(np.abs(axes @ wanted.T), np.eye(6), atol=1e-4)
    np.testing.assert_allclose(shares, lengths**2 / np.square(lengths).sum(), rtol=1e-4)
    assert (axes[np.arange(6), np.abs(axes).argmax(axis=1)] > 0).all()
