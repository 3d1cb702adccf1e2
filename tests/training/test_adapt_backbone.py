"""The adaptation learns, gives the same bytes every time, and survives SIGKILL without leaving a trace in them."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.data.tokens import Texts
from pipeline_tasks.training.loop import TrainResult
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.training.conftest import passage


def blocks(*texts: list[str]) -> Texts:
    return partial(iter, [pa.array(some) for some in texts])


FEW = [passage(topic, variant) for variant in (0, 3) for topic in range(16)]
TEXTS = blocks(*([passage(topic, variant) for topic in range(24)] for variant in (0, 3, 4, 5)))
DEV = [passage(topic, 2) for topic in range(24)]
SMALL = AdaptParams(
    batch_size=16,
    learning_rate=3e-2,
    max_passage_length=32,
    evals_per_epoch=1,
    checkpoint_every_steps=1,
    device="cpu",
)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory) -> Path:
    return shapes.make("qwen3", tmp_path_factory.mktemp("decoder"))


def weights_of(result: TrainResult) -> dict[str, bytes]:
    return {name: weights.numpy().tobytes() for name, weights in result.encoder.trained().items()}


def told(step: int, steps: int, facts: dict[str, float]) -> None:
    """Listens to nothing."""


@pytest.fixture(scope="module")
def undisturbed(decoder, tmp_path_factory) -> TrainResult:
    return adapt(decoder, TEXTS, DEV, SMALL, tmp_path_factory.mktemp("whole"), told)


def test_it_learns_to_fill_blanks_from_both_sides(undisturbed):
    (_, before), *_ = undisturbed.scores
    assert undisturbed.best_score > before
    assert sum(undisturbed.losses[-3:]) < sum(undisturbed.losses[:3])
    assert undisturbed.encoder.model.config.is_causal is False


def test_checkpoints_hold_what_trains_and_nothing_else(decoder, tmp_path):
    result = adapt(decoder, TEXTS, [], SMALL, tmp_path, told)
    (newest,) = tmp_path.glob("step-*.pt")
    kept = torch.load(newest, weights_only=True)["weights"]
    assert kept.keys() == result.encoder.trained().keys()
    assert all("lora_" in name for name in kept)


@pytest.mark.parametrize("stop", [1, 6, 11])
def test_stopped_at_any_step_it_ends_the_same(decoder, undisturbed, tmp_path, stop):
    def interrupt(step: int, steps: int, facts: dict[str, float]) -> None:
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adapt(decoder, TEXTS, DEV, SMALL, tmp_path, interrupt)
    resumed = adapt(decoder, TEXTS, DEV, SMALL, tmp_path, told)
    assert resumed.resumed_at == stop
    assert (resumed.losses, resumed.scores) == (undisturbed.losses, undisturbed.scores)
    assert weights_of(resumed) == weights_of(undisturbed)


def test_killed_it_ends_in_the_same_bytes(decoder, undisturbed, tmp_path):
    from tests.training import killable

    context = multiprocessing.get_context("spawn")
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=killable.adapting, args=(tell, decoder, TEXTS, DEV, SMALL, tmp_path))
    process.start()
    tell.close()
    for _ in range(4):
        hear.recv()
    process.kill()
    process.join()
    assert process.exitcode == -9
    resumed = adapt(decoder, TEXTS, DEV, SMALL, tmp_path, told)
    assert 3 <= resumed.resumed_at < resumed.steps
    assert weights_of(resumed) == weights_of(undisturbed)


def test_all_weights_train_without_adapters(decoder, tmp_path):
    few = SMALL.model_copy(update={"lora_rank": 0, "epochs": 1})
    result = adapt(decoder, blocks(FEW), DEV[:4], few, tmp_path, told)
    assert not any("lora_" in name for name in result.encoder.trained())
    assert result.steps == 2


def test_in_bf16_the_frozen_weights_are_held_in_it_and_the_saved_model_is_exact(decoder, tmp_path):
    half = SMALL.model_copy(update={"precision": "bf16", "epochs": 1})
    decoder = shapes.in_bfloat16(decoder, tmp_path / "published")
    result = adapt(decoder, blocks(FEW), DEV[:4], half, tmp_path / "work", told)
    kinds = {(weights.requires_grad, weights.dtype) for weights in result.encoder.model.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    assert adapt(decoder, blocks(FEW), DEV[:4], half, tmp_path / "work", told).losses == result.losses
    export(result.encoder, tmp_path / "out", card={}, layout=Layout("mean", 32))
    saved = load(tmp_path / "out").model
    assert {weights.dtype for weights in saved.parameters()} == {torch.float32}
    assert saved.config.is_causal is False


def test_how_texts_are_divided_into_blocks_changes_nothing(decoder, undisturbed, tmp_path):
    whole = blocks([text for block in TEXTS() for text in block.to_pylist()], [])
    assert adapt(decoder, whole, DEV, SMALL, tmp_path, told).losses == undisturbed.losses


def test_texts_are_read_again_only_where_they_are_not_tokenised(decoder, tmp_path):
    reads = []

    def counted():
        reads.append("")
        yield from TEXTS()

    for wanted in (2, 1):
        adapt(decoder, counted, DEV, SMALL.model_copy(update={"epochs": 1}), tmp_path, told)
        assert len(reads) == wanted
        reads.clear()


def test_scores_of_blanks_are_multiplied_as_the_model_does(tmp_path):
    sharp, flat = (
        shapes.of_kind("granite", tmp_path / str(scale), num_key_value_heads=2, logits_scaling=scale)
        for scale in (0.01, 1000.0)
    )
    once = SMALL.model_copy(update={"epochs": 1})
    losses = [adapt(at, blocks(FEW), [], once, tmp_path / f"work-{at.name}", told).losses[0] for at in (sharp, flat)]
    assert losses[1] == pytest.approx(np.log(len(shapes.words("qwen3"))), abs=0.01) and losses[0] > losses[1] + 0.5


def test_an_encoder_with_a_head_is_refused(tmp_path):
    with pytest.raises(InputError, match="a 'bert' model, whose head does more .*choose a size with one"):
        adapt(shapes.of_kind("bert", tmp_path / "m"), TEXTS, [], SMALL, tmp_path / "work", told)


def test_texts_of_one_token_are_refused(decoder, tmp_path):
    with pytest.raises(InputError, match="no training passage has two tokens"):
        adapt(decoder, blocks(["ta", "tb"]), [], SMALL, tmp_path, told)


def test_an_encoder_has_no_head_to_fill_blanks_with(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="lacks .* weights|no model that transformers can load"):
        adapt(tiny_bert, TEXTS, [], SMALL, tmp_path, told)


@pytest.mark.parametrize(("kind", "more"), [("stablelm", {"num_key_value_heads": 4}), ("mamba", {})])
def test_a_decoder_that_does_not_look_ahead_is_refused_before_it_is_trained(tmp_path, kind, more):
    decoder = shapes.of_kind(kind, tmp_path / "decoder", **more)
    with pytest.raises(InputError, match=f"a '{kind}' model that is to attend both ways .*name another decoder"):
        adapt(decoder, TEXTS, [], SMALL, tmp_path / "work", told)
