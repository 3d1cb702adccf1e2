"""What a training holds its weights in, and what it gives back of a start that no step was as good as."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.model.open_model import dtype_of, open_encoder
from pipeline_tasks.training.params import TrainParams
from tests import shapes

HALF = TrainParams(
    size="596m",
    device="cpu",
    precision="bf16",
    batch_size=8,
    epochs=2,
    learning_rate=1e-3,
    max_query_length=16,
    max_passage_length=32,
    evals_per_epoch=1,
    in_batch=True,
)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return shapes.in_bfloat16(shapes.make("qwen3", folder / "made"), folder / "published")


def test_under_adapters_weights_are_held_in_bfloat16_where_it_holds_them(published, tmp_path):
    assert dtype_of(HALF, published) == "bfloat16"
    others = ({"lora_rank": 0}, {"precision": "fp32"})
    assert [dtype_of(HALF.model_copy(update=other), published) for other in others] == ["float32"] * 2


def test_a_stage_begins_with_all_that_the_stage_before_learned_and_gives_it_back(published, rows, dev, tmp_path):
    learned = train(rows, Examples.of(), published, HALF, tmp_path / "first")
    export(learned.encoder, tmp_path / "start", card={}, layout=Layout("mean", 32))
    saved = load(tmp_path / "start").model.state_dict()
    assert any(not torch.equal(weights, weights.bfloat16().float()) for weights in saved.values())
    held = open_encoder(tmp_path / "start", HALF).model.get_base_model().state_dict()
    frozen = {name.replace(".base_layer", ""): weights for name, weights in held.items() if "lora_" not in name}
    assert frozen.keys() == saved.keys() and all(torch.equal(frozen[name], saved[name]) for name in saved)

    harmful = HALF.model_copy(update={"learning_rate": 3.0})
    (given,) = rows.blocks()
    texts = given["positive"].to_pylist()
    wrong = Examples.of(given["query"], texts[1:] + texts[:1])
    result = train(wrong, dev, tmp_path / "start", harmful, tmp_path / "second")
    assert result.best_step == 0 and len(result.scores) > 1
    export(result.encoder, tmp_path / "out", card={}, layout=replace(layout_of(tmp_path / "start"), max_length=32))
    again = load(tmp_path / "out").model.state_dict()
    assert all(torch.equal(again[name], saved[name]) for name in saved)


@pytest.mark.parametrize(("lora_rank", "said"), [(16, "of a 596m: use a larger card"), (0, "train adapters")])
def test_a_model_that_a_card_has_no_room_for_is_told_with_what_to_do(published, tmp_path, monkeypatch, lora_rank, said):
    def full(self, *place, **more):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.25 GiB")

    monkeypatch.setattr(torch.nn.Module, "to", full)
    params = {"size": "596m", "device": "cpu", "lora_rank": lora_rank}
    with pytest.raises(InputError, match=f"no room for the weights .*{said}"):
        open_encoder(published, TrainParams(**params))
    with pytest.raises(InputError, match=f"no room for the weights .*{said}"):
        adapt(published, partial(iter, [pa.array(["ta wb"])]), [], AdaptParams(**params), tmp_path, print)
