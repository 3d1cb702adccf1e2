import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.chunking.drift import cohesion, token_table, weighted


@pytest.fixture
def random():
    return np.random.default_rng(3)


def test_cohesion_is_least_where_the_subject_changes(random):
    table = random.normal(size=(400, 16)).astype(np.float32)
    table[:200] += 2 * random.normal(size=16)
    table[200:] += 2 * random.normal(size=16)
    ids = np.concatenate([random.integers(0, 200, 300), random.integers(200, 400, 500), random.integers(0, 200, 200)])
    found = cohesion(ids, np.arange(0, 1001, 20), weighted(table))
    assert set((found.argsort()[:2] + 1) * 20) == {300, 800}
    assert found.mean() == pytest.approx(0, abs=1e-9) and found.std() == pytest.approx(1, abs=1e-3)


def test_units_without_tokens_and_long_texts_are_summed_right(random):
    table = random.normal(size=(50, 8)).astype(np.float32)
    ids = random.integers(0, 50, 200_000)
    ends = np.unique(random.integers(0, 200_000, 3000))
    ends = np.sort(np.concatenate([[0, 0], ends, ends[::7], [200_000, 200_000]]))
    found = cohesion(ids, ends, table)
    assert len(found) == len(ends) - 2 and np.isfinite(found).all()
    sums = np.concatenate([np.zeros((1, 8)), np.cumsum(table[ids].astype(float), axis=0)])[ends]
    from pipeline_tasks.corpus.chunking.drift import _sums

    assert np.allclose(_sums(ids, ends, table), sums, atol=1e-2)


@pytest.mark.parametrize("ends", [[0], [0, 5], [0, 0, 0], [0, 5, 5, 5]])
def test_little_text_has_no_drift(ends):
    found = cohesion(np.zeros(ends[-1], int), np.array(ends), np.ones((3, 4), np.float32))
    assert found.tolist() == [0.0] * max(0, len(ends) - 2)


def test_a_model_without_a_table_is_named_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match="mode=structure"):
        token_table(tmp_path)


def test_a_table_in_bfloat16_is_read(tmp_path):
    table = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    save_file({"model.embed_tokens.weight": table}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(token_table(tmp_path), weighted(table.float().numpy()))
