"""Matryoshka against the loss of each prefix, normalised again."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, POSITIVES, arrays, example, softmax


def made(**parameters):
    return objective({"name": "matryoshka", **parameters})


@pytest.mark.parametrize("inner", ["info_nce", "kl_distillation"])
def test_equals_the_weighted_sum_over_prefixes(inner: str) -> None:
    queries, passages, table = example()
    by_hand = 0.0
    for n, weight in ((8, 1.0), (5, 0.5), (2, 0.25)):
        short = [functional.normalize(side[:, :n], dim=1) for side in (queries, passages)]
        by_hand += weight * objective(inner).loss(*short, table).item()
    loss = made(inner=inner, dims=[8, 5, 2], weights=[1.0, 0.5, 0.25]).loss(queries, passages, table)
    assert loss.item() == pytest.approx(by_hand, rel=1e-12)


def test_equals_numpy() -> None:
    sides, table = (found := example())[:2], found[2]
    by_hand = 0.0
    for n, weight in ((8, 1.0), (3, 0.5)):
        queries, passages = (
            cut / np.linalg.norm(cut, axis=1, keepdims=True) for side in arrays(*sides) for cut in [side[:, :n]]
        )
        for row, (positive, own) in enumerate(zip(POSITIVES, OWN, strict=True)):
            likely = softmax(passages[own] @ queries[row] / table.temperature)
            by_hand -= weight * np.log(likely[own.index(positive)]) / len(OWN)
    assert made(dims=[8, 3], weights=[1.0, 0.5]).loss(*sides, table).item() == pytest.approx(by_hand, rel=1e-12)


def test_with_the_full_width_alone_it_is_the_inner_objective() -> None:
    queries, passages, table = example()
    assert torch.equal(
        made(dims=[8]).loss(queries, passages, table), objective("info_nce").loss(queries, passages, table)
    )


def test_prefixes_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match=r"dims=\[16\], but the embeddings have 8"):
        made(dims=[16]).loss(*example())
    for wrong in ({"dims": []}, {"dims": [0]}, {"dims": [8, 4], "weights": [1.0]}):
        with pytest.raises(ValueError, match="dims"):
            made(**wrong)
