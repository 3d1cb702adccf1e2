"""Queries without their keywords: which words go, and what stands for them."""

from __future__ import annotations

import numpy as np

from benchmarks.perturbed_queries import perturbed

TEXTS = [
    "the flood of the bridge",
    "a flood and floods",
    "the bridge of the dam",
    "the dam and a deluge",
    "deluge of the",
]
MEANING = {"flood": 0, "floods": 0.1, "deluge": 0.2, "bridge": 1, "dam": 1.4}


def encode(words: list[str]) -> np.ndarray:
    angles = np.array([MEANING.get(word, 3) for word in words])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_the_rarest_words_of_a_query_go_and_the_nearest_of_another_beginning_stand_for_them():
    found = perturbed(["Is the flood near the Bridge?", "the of"], TEXTS, 2, encode)
    assert found["masked"] == ["Is the near the ?", "the of"]
    assert found["synonyms"] == ["Is the deluge near the dam?", "the of"], "floods is the same word, and in one passage"
