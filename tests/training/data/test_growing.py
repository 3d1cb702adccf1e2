"""A long array is the concatenation of its pieces, and zeros before the first value take nothing."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.training.data.growing import Growing


@pytest.mark.parametrize(
    "pieces", [[], [[]], [[0, 0], [0]], [[0, 0], [], [0, 3], [0], [4, 0]], [[1], [2, 3]], [[0], [0, 0], [0, 0, 7]]]
)
def test_it_is_what_its_pieces_are_one_after_another(pieces) -> None:
    grown = Growing(np.int32)
    for piece in pieces:
        grown.add(np.array(piece, np.int64))
    expected = np.array([value for piece in pieces for value in piece], np.int32)
    assert grown.array().dtype == np.int32 and grown.array().tolist() == expected.tolist()
    assert grown.any() == expected.any()


def test_zeros_alone_take_no_memory() -> None:
    grown = Growing(np.int64)
    for _ in range(1000):
        grown.add(np.zeros(1 << 20, np.int64))
    assert len(grown.array()) == 1000 << 20 and not grown.array().strides[0]
