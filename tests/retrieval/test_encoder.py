"""What every encoder makes of the vectors that its model gave."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.retrieval.encoder import Encoder

GIVEN = np.random.default_rng(0).normal(size=(2_000, 256))
TEXTS = [f"{number:04}" for number in range(len(GIVEN))]


class Known(Encoder):
    """Gives what it is told to, to sorted texts."""

    given: np.ndarray

    def _vectors(self, texts, prefixes, done):
        return self.given


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("own", [True, False])
def test_vectors_are_divided_by_their_lengths_whatever_they_are_held_in(kind, own):
    encoder, found = Known("known", 256, Layout("mean", 8)), GIVEN.astype(kind)
    encoder.given = found.copy() if own else found[:]
    vectors = encoder.encode(TEXTS)
    expected = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    assert vectors.dtype == np.float32 and vectors.tobytes() == expected.tobytes()


def test_vectors_are_held_twice_at_most():
    encoder = Known("known", 256, Layout("mean", 8))
    tracemalloc.start()
    encoder.given = GIVEN.astype(np.float32)
    encoder.encode(TEXTS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.6 * encoder.given.nbytes
