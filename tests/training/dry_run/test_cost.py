"""What a training takes, against the formulas of the papers with the numbers put in by hand."""

from __future__ import annotations

import pytest

from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.training.dry_run.cost import Cost

BASE = SHAPES["bert-base-uncased"]
DECODER = SHAPES["qwen3-8b"]
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def test_a_block_in_float32_keeps_what_the_paper_has():
    """Korthikanti et al. 2022, equation 1: 34 in two bytes a number; of four, all but dropout is twice as much."""
    assert Cost(BASE, half=False).memory(1000)["activations"] == (2 * 32 + 2) * 1000 * 768 * 12


def test_in_bfloat16_normalisation_and_copies_of_inputs_come_on_top():
    assert Cost(BASE).memory(1000)["activations"] == 42 * 1000 * 768 * 12


def test_recomputed_activations_are_the_input_of_every_block_and_one_block():
    assert Cost(BASE, recompute=True).memory(1000)["activations"] == 1000 * 768 * (4 * 12 + 42)
    adapters = Cost(DECODER, 16, TARGETS, recompute=True)
    assert adapters.memory(1000)["activations"] == 1000 * (2 * 4096 * 36 + adapters.kept_bytes)


def test_weights_gradients_and_moments_are_sixteen_bytes_and_a_copy_of_the_matrices():
    trained = 109_482_240 - (768 * 768 + 768)
    found = Cost(BASE).memory(0)
    assert (found["gradients"], found["optimiser"]) == (4 * trained, 8 * trained)
    assert found["weights"] == 4 * 109_482_240 + 2 * 12 * 12 * 768 * 768
    assert Cost(BASE, half=False).memory(0)["weights"] == 4 * 109_482_240
    assert Cost(BASE).memory(0, pieces=3)["weights"] == 4 * 109_482_240 + 3 * 2 * 12 * 12 * 768 * 768
    assert Cost(BASE, half=False).memory(0, pieces=3)["weights"] == 4 * 109_482_240
    recomputed = Cost(BASE, recompute=True).memory(0, pieces=3)["weights"]
    assert recomputed == 4 * 109_482_240 + 2 * 12 * 768 * 768  # of one block


def test_of_frozen_weights_only_adapters_have_gradients():
    by_hand = 36 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12288))
    cost = Cost(DECODER, 16, TARGETS)
    assert cost.trained == by_hand
    found = cost.memory(0)
    assert found["weights"] == 2 * 7_568_405_504 + 4 * by_hand
    assert (found["gradients"], found["optimiser"]) == (4 * by_hand, 8 * by_hand)
    assert cost.memory(0, head=True)["weights"] - found["weights"] == 2 * 4096 * 151_936


def test_frozen_weights_that_have_learned_are_four_bytes_and_a_copy_a_piece():
    half, exact = Cost(DECODER, 16, TARGETS), Cost(DECODER, 16, TARGETS, exact=True)
    assert (half.held_half, exact.held_half) == (True, False)
    more = exact.memory(0, pieces=3)["weights"] - half.memory(0, pieces=3)["weights"]
    assert more == 2 * 7_568_405_504 + 3 * 2 * DECODER.matrix_params
    in_full, all_weights = (Cost(DECODER, 16, TARGETS, half=False, exact=exact).memory(9) for exact in (True, False))
    assert in_full == all_weights


def test_a_gated_block_by_hand():
    h, q, kv, f = 4096, 4096, 1024, 12288
    assert Cost(DECODER).memory(10)["activations"] == 10 * 36 * (26 * h + 14 * q + 6 * kv + 8 * f)
    assert Cost(DECODER, 16, TARGETS).memory(10)["activations"] == 10 * 36 * (18 * h + 14 * q + 4 * kv + 8 * f)
    assert Cost(DECODER, half=False).memory(10)["activations"] == 10 * 36 * (24 * h + 24 * q + 8 * kv + 16 * f)


def test_masked_tokens_have_scores_of_every_word():
    difference = Cost(DECODER).memory(10, 2)["activations"] - Cost(DECODER).memory(10)["activations"]
    assert difference == 2 * 12 * 151_936


def test_work_is_six_operations_a_parameter_and_token():
    matrices = 12 * 12 * 768 * 768
    assert Cost(BASE).step(0) == 6 * matrices
    assert Cost(BASE).step(512) == 6 * matrices + 3 * 4 * 12 * 512 * 768
    assert Cost(BASE, recompute=True).step(0) == Cost(BASE).step(0, cached=True) == 8 * matrices


def test_under_adapters_it_is_four_and_six_of_the_adapters():
    cost = Cost(DECODER, 16, TARGETS)
    assert cost.step(0) == pytest.approx(4 * DECODER.matrix_params + 6 * cost.trained)
