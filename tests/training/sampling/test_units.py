"""What a sampler chooses among is named after its source, and batches hold one of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampling.sampled_schedule import Sampling
from pipeline_tasks.training.sampling.units import units_of

BASE = {"batch_size": 4, "max_query_length": 16, "max_passage_length": 32, "in_batch": True, "device": "cpu"}
VOCABULARY = 1000


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path):
    return open_encoder(tiny_bert, TrainParams(**BASE))


@pytest.fixture
def read(encoder, tmp_path: Path, many_rows: Examples):
    """The first ``n`` rows, equally many in a row of each source, tokenised as a training does."""
    (given,) = many_rows.blocks()

    def rows(sources: list[str], n: int = len(given)) -> Rows:
        texts = [given[name].to_pylist()[:n] for name in ("query", "positive")]
        of = [sources[i * len(sources) // n] for i in range(n)]
        lengths = {"max_query_length": 16, "max_passage_length": 32}
        return tokenized(Examples.of(*texts, sources=of), encoder.tokens, tmp_path / str(n), **lengths)

    return rows


def test_without_clusters_they_are_the_sources(read) -> None:
    data = read(["a", "b"])
    units = units_of(data, TrainParams(**BASE, sampler="uniform"), VOCABULARY)
    assert (units.names, units.sources, units.key, units.shares([data])) == (["a", "b"], ["a", "b"], "", None)
    assert [rows.tolist() for rows in units.rows()] == [np.flatnonzero(data.source_of == n).tolist() for n in (0, 1)]


def test_clusters_bear_the_name_of_their_source(read) -> None:
    data = read(["gd/squad", ""])
    units = units_of(data, TrainParams(**BASE, sampler="uniform", clusters=2), VOCABULARY)
    assert units.names == ["gd/squad/cluster-0", "gd/squad/cluster-1", "cluster-0", "cluster-1"]
    assert units.sources == ["gd/squad", "gd/squad", "", ""]
    assert np.sort(np.concatenate(units.rows())).tolist() == list(range(len(data)))
    for source, rows in zip(units.sources, units.rows(), strict=True):
        assert {data.sources[n] for n in data.source_of[rows]} == {source}
    other = units_of(data, TrainParams(**BASE, sampler="uniform", clusters=3), VOCABULARY)
    assert len({units.key, other.key, ""}) == 3


def test_a_batch_is_of_one_cluster_and_targets_count_alike(encoder, read) -> None:
    data, few = read(["a", "b"]), read(["a"], 3)
    params = TrainParams(**BASE, sampler="crisp", clusters=3, mixture='{"a": 1, "b": {"objective": "list_net"}}')
    sampling = Sampling(params.sampler, data, {"all": data, "few": few}, Gradients(encoder, data, params))
    units = units_of(data, params, encoder.model.get_input_embeddings().num_embeddings)
    assert sampling.pool.names == units.names
    found = sampling.pool.shares
    np.testing.assert_allclose(found, (units.clusters.shares(data) + units.clusters.shares(few)) / 2)
    for step in range(6):
        rows, objective = sampling.batch(step)
        (unit,) = set(units.of_row[rows].tolist())
        assert objective.name == {"a": "info_nce", "b": "list_net"}[units.sources[unit]]
        sampling.after(step)
