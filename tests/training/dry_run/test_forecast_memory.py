"""What a dry run says a card would have to hold, and that a GPU works on larger pieces than a processor."""

from __future__ import annotations

import math

import pytest

from pipeline_tasks.models.gpus import cards
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.models.sizes import SIZES, get_size
from pipeline_tasks.training.adapt_backbone import AdaptParams
from pipeline_tasks.training.dry_run.forecast import forecast, with_gpu
from pipeline_tasks.training.dry_run.loads import Load
from pipeline_tasks.training.finetune import FinetuneParams
from pipeline_tasks.training.pretrain import PretrainParams


@pytest.mark.parametrize(
    ("changed", "held"),
    [
        ({"in_batch": True}, 4096),  # through the cache: what graph_tokens allow
        ({"in_batch": True, "graph_tokens": 200}, 1024),  # and a micro-batch at least
        ({"in_batch": True, "graph_tokens": 200, "micro_batch_tokens": 64}, 512),  # which holds one text at least
        ({"in_batch": True, "batch_size": 10}, 3000),  # fits as it is
        ({}, 4096),  # rows that do not see each other, as many as graph_tokens allow
        ({"graph_tokens": 200}, 1024),
    ],
)
def test_tokens_held_at_once_are_those_that_the_loop_holds(changed, held):
    pieces = {"graph_tokens": 4096, "micro_batch_tokens": 1024}
    params = FinetuneParams(**{"size": "335m", "device": "cuda", "batch_size": 100} | pieces | changed)
    load = Load({"": 1000}, 3000, 300_000)
    found = forecast(params, load, load, half=True)
    assert found.memory["activations"] == held * 42 * 1024 * 24
    again = forecast(params.model_copy(update={"recompute": True}), load, load, half=True)
    assert again.memory["activations"] == held * 1024 * (4 * 24 + 42)
    # Every piece that is held has a copy of the matrices in bfloat16, 2 bytes each; recomputed, one block has.
    copies = 24 * math.ceil(held / params.micro_batch_tokens) - 1
    assert found.memory["weights"] - again.memory["weights"] == copies * 2 * 12 * 1024**2


def test_a_gpu_works_on_pieces_of_the_size():
    """Planned on a machine without one: ``device`` is resolved to a processor, whose pieces are not the GPU's."""
    assert PretrainParams(size="335m", device="cpu").graph_tokens == 4096
    pieces = get_size("335m").on_gpu
    assert PretrainParams(size="335m", device="cuda").micro_batch_tokens == pieces.micro_batch_tokens > 1024
    load = Load({"": 1000}, 2000, 400_000)
    chosen = PretrainParams(size="335m", device="cpu", in_batch=True, batch_size=384)
    expected = forecast(
        PretrainParams(size="335m", device="cuda", in_batch=True, batch_size=384), load, load, half=True
    )
    assert with_gpu(chosen).graph_tokens == pieces.graph_tokens
    assert forecast(with_gpu(chosen), load, load, half=True).memory == expected.memory
    own = chosen.model_copy(update={"graph_tokens": 2000})
    assert with_gpu(own).graph_tokens == 2000


@pytest.mark.parametrize("size", SIZES)
def test_the_pieces_of_a_size_fit_the_cards_that_it_says(size):
    load, (l4,), (h100,) = Load({"": 10_000}, 20_000, 5_000_000), cards("L4"), cards("H100")
    on = l4 if size not in ("4b", "7.6b") else h100
    stages = [PretrainParams, FinetuneParams] + [AdaptParams] * get_size(size).decoder
    for stage in stages:
        assert forecast(stage(size=size, device="cuda"), load, load, half=True).fits(on)


def test_adapters_take_a_large_model_to_a_card_that_its_weights_do_not_fit():
    load = Load({"": 1000}, 3000, 300_000)
    (l4,), (h200,) = cards("L4"), cards("H200")
    pieces = {"size": "4b", "device": "cuda", "micro_batch_tokens": 1024}
    with_adapters = forecast(AdaptParams(**pieces), load, load, half=True)
    everything = forecast(AdaptParams(**pieces, lora_rank=0), load, load, half=True)
    assert with_adapters.fits(l4)
    assert not everything.fits(l4)
    assert everything.fits(h200)
    assert with_adapters.operations < everything.operations


def test_cards_that_divide_the_moments_have_room_for_a_model_that_one_has_not():
    load, (h100,) = Load({"": 1000}, 3000, 300_000), cards("H100")
    params = FinetuneParams(size="4b", device="cuda", lora_rank=0, micro_batch_tokens=1024, graph_tokens=1024)
    alone = forecast(params, load, load, half=True, n_cards=4)
    divided = forecast(params.model_copy(update={"sharding": "zero1"}), load, load, half=True, n_cards=4)
    assert divided.memory == alone.memory | {"optimiser": alone.memory["optimiser"] // 4}
    assert divided.fits(h100)
    assert not alone.fits(h100)
    assert divided.operations == alone.operations


def test_cards_that_divide_everything_train_all_weights_of_a_model_that_no_card_holds_so():
    load, (h100,) = Load({"": 1000}, 3000, 300_000), cards("H100")
    params = FinetuneParams(size="7.6b", device="cuda", lora_rank=0, recompute=True)
    moments, everything = (
        forecast(params.model_copy(update={"sharding": sharding}), load, load, half=True, n_cards=8)
        for sharding in ("zero1", "fsdp")
    )
    assert everything.memory["optimiser"] == moments.memory["optimiser"]
    assert everything.memory["activations"] == moments.memory["activations"]
    trained = 4 * SHAPES["qwen3-8b"].n_params
    assert trained / 8 < everything.memory["gradients"] < trained / 4
    assert not moments.fits(h100)
    assert everything.fits(h100)
    alone = forecast(params.model_copy(update={"sharding": "fsdp"}), load, load, half=True)
    assert alone.memory == forecast(params, load, load, half=True).memory
