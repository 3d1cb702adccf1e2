"""Which models bfloat16 holds as they are."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline_tasks.encoders.rounding import survives_bfloat16
from tests import shapes


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return shapes.in_bfloat16(shapes.make("qwen3", folder / "made"), folder / "published")


def with_weights(folder, weights):
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    return folder


def test_a_model_published_in_bfloat16_is_held_in_it_in_whatever_it_is_saved(published, tmp_path):
    assert survives_bfloat16(published)
    weights = {name: weights.float() for name, weights in load_file(published / "model.safetensors").items()}
    assert survives_bfloat16(with_weights(tmp_path / "in float32", weights))


def test_one_number_that_has_learned_is_enough(published, tmp_path):
    weights = {name: weights.float() for name, weights in load_file(published / "model.safetensors").items()}
    last = weights[max(weights)]
    last.view(-1)[-1] += 1e-4
    assert not survives_bfloat16(with_weights(tmp_path / "learned", weights))


def test_numbers_that_are_no_weights_count_for_nothing_and_damaged_files_for_no(published, tmp_path):
    assert survives_bfloat16(with_weights(tmp_path / "places", {"positions": torch.arange(1_000_001)}))
    (tmp_path / "places" / "more.safetensors").write_bytes(b"no such file")
    assert not survives_bfloat16(tmp_path / "places")
