"""A model's id says what decided its weights: the values that the optimiser reads, wherever they came from."""

from __future__ import annotations

import json
from functools import partial

import pytest
from pydantic import ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.models import sizes
from pipeline_tasks.training import STEPS
from pipeline_tasks.training.distill import DistillParams
from pipeline_tasks.training.finetune import FinetuneParams
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.pretrain import PretrainParams, pretrain
from tests.training.made import pairs_only

STAGES = (PretrainParams, FinetuneParams, DistillParams)


@pytest.fixture
def setting(monkeypatch):
    """Gives a variable of the settings a value."""

    def given(variable: str, value: str) -> None:
        monkeypatch.setenv(variable, value)
        settings.cache_clear()

    return given


@pytest.fixture
def on(setting):
    """Says what the machine trains on."""
    return partial(setting, "FOUNDRY_DEVICES")


@pytest.mark.parametrize("params", STAGES)
def test_an_id_that_left_out_what_decided_the_weights(params, monkeypatch):
    before = params(size="33m")
    stage = sizes.SIZES["33m"].stage(params.stage)
    assert (before.learning_rate, before.batch_size) == (stage.learning_rate, stage.batch_size)
    assert before.identity()["learning_rate"] == stage.learning_rate
    changed = stage.model_copy(update={"learning_rate": 0.5})
    monkeypatch.setitem(sizes.SIZES, "33m", sizes.SIZES["33m"].model_copy(update={params.stage: changed}))
    assert params(size="33m").identity() != before.identity()
    assert params(size="33m", learning_rate=stage.learning_rate).identity() == before.identity()


@pytest.mark.parametrize("params", STAGES)
def test_temperature_and_lengths_are_data_of_the_size_too(params, monkeypatch):
    of = {size: params(size=size, device="cpu") for size in ("22m", "33m")}
    assert [of[size].temperature for size in of] == [0.02, 0.01]
    assert [of[size].max_passage_length for size in of] == [256, 512]
    shorter = sizes.SIZES["22m"].stage(params.stage).model_copy(update={"max_passage_length": 192})
    monkeypatch.setitem(sizes.SIZES, "22m", sizes.SIZES["22m"].model_copy(update={params.stage: shorter}))
    again = params(size="22m", device="cpu")
    assert again.max_passage_length == 192
    assert again.identity() != of["22m"].identity()
    assert params(size="22m", max_passage_length=64, device="cpu").max_passage_length == 64


@pytest.mark.parametrize("params", STAGES)
def test_one_id_for_bf16_on_a_gpu_and_fp32_on_a_processor(params, on):
    on("cpu")
    processor = params().identity()
    on("cuda:0")
    gpu = params().identity()
    assert (processor["device"], processor["precision"]) == ("cpu", "fp32")
    assert (gpu["device"], gpu["precision"]) == ("cuda", "bf16")
    assert params(device="cpu").identity() == processor
    assert params(device="cuda", precision="fp32").identity() == gpu | {"precision": "fp32"}


@pytest.mark.parametrize("params", STAGES)
def test_every_field_but_the_rhythm_of_checkpoints_is_in_the_id(params):
    base = params(device="cpu").identity()
    left_out = {"checkpoint_every_steps", "recompute", "sharding"}
    left_out |= {"unit", "clusters", "sampler", "targets", "budget", "triplets_from", "views"}  # unless they are chosen
    left_out |= {"pretrained", "backbone"} if params is FinetuneParams else set()
    assert set(params.model_fields) - set(base) == left_out & set(params.model_fields)
    assert params(device="cpu", checkpoint_every_steps=7, recompute=True, sharding="zero1").identity() == base
    others = {"temperature": 0.02, "weight_decay": 0.0, "warmup_ratio": 0.0, "max_grad_norm": 2.0, "evals_per_epoch": 1,
              "micro_batch_tokens": 512, "graph_tokens": 8192, "precision": "bf16"}  # fmt: skip
    for name, value in others.items():
        assert params(device="cpu", **{name: value}).identity() != base, name


def test_the_manifest_shows_the_values_that_were_used(tmp_path):
    job = plan(pairs_only(tmp_path), pretrain, {"size": "33m", "learning_rate": None, "device": "cpu"})
    shown = json.loads(json.dumps(job.identity))
    wanted = {"learning_rate": 4e-4, "batch_size": 2400, "temperature": 0.01, "precision": "fp32", "device": "cpu"}
    assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 9),
        ({"reset_layers": None}, 9),
        ({"reset_layers": 0}, 0),
        ({"start_from": ["model/33m/pretrain"]}, 0),
        ({"backbone": "all-minilm-l6-v2"}, 0),
        ({"size": "22m"}, 0),
        ({"size": "22m", "backbone": "minilm-l12-h384"}, 9),
        ({"size": "22m", "reset_layers": 2}, 2),
    ],
)
def test_top_layers_start_as_identity_where_the_weights_here_are_of_a_cross_encoder(given, expected):
    assert PretrainParams(**{"size": "33m"} | given).reset_layers == expected


def test_a_model_that_has_learned_keeps_its_layers():
    with pytest.raises(ValidationError, match="reset_layers=2 is for a backbone, and model/33m/pretrain has learned"):
        PretrainParams(size="33m", reset_layers=2, start_from=["model/33m/pretrain"])
    assert PretrainParams(size="33m", reset_layers=0, start_from=["model/33m/pretrain"]).reset_layers == 0
    with pytest.raises(ValidationError, match="model/596m/adapt has learned"):
        PretrainParams(size="596m", reset_layers=2)


def test_adapters_are_kept_where_they_fit_the_model_that_was_started_from():
    kept = {"size": "33m", "lora_rank": 4, "lora_targets": ["query"], "keep_adapters": True}
    with pytest.raises(ValidationError, match="trained with reset_layers=9 fit no model that anybody has: choose"):
        PretrainParams(**kept)
    with pytest.raises(ValidationError, match="keep_adapters=true, and lora_rank=0 trains none: set lora_rank=16"):
        PretrainParams(**kept | {"lora_rank": 0})
    for fits in ({"reset_layers": 0}, {"keep_adapters": False}):
        assert PretrainParams(**kept | fits).reset_layers == fits.get("reset_layers", 9)


@pytest.mark.parametrize("size", ["33m", "596m"])
@pytest.mark.parametrize("targets", [[], ()])
def test_no_targets_are_those_of_the_size(size, targets):
    assert TrainParams(size=size, lora_targets=targets).identity() == TrainParams(size=size).identity()


def test_the_trunk_of_a_hub_tells_texts_apart_in_all_its_layers(setting):
    setting("FOUNDRY_PROFILE", "hub")
    assert PretrainParams(size="33m").reset_layers == 0


def test_what_the_optimiser_reads_is_what_the_command_line_offers():
    for name in ("temperature", "weight_decay", "warmup_ratio", "graph_tokens", "precision", "evals_per_epoch"):
        assert name in TrainParams.model_fields
    assert issubclass(TrainParams, StepParams)


NAMED = {
    "objective": {"name": "matryoshka", "dims": [8]},
    "mixture": {"dm": 1, "faq": {"objective": {"name": "matryoshka", "dims": [8], "inner": "same_tower"}}},
    "sampler": {"name": "doremi", "reference": {"name": "temperature", "tau": 2}},
}
MEAN = {"models": ["model/33m/pretrain@A", "model/33m/pretrain@B"], "start": "minilm-l12-h384"}
WAYS = [(name, MEAN if name == "average_models" else {}) for name in STEPS]
WAYS += [("finetune", NAMED), ("pretrain", {"backbone": "all-minilm-l6-v2"})]


@pytest.mark.parametrize(("name", "chosen"), WAYS)
def test_the_identity_of_every_training_step_leads_back_to_its_parameters(name, chosen, setting):
    if name == "adapt_backbone":  # a decoder is at a hub alone
        setting("FOUNDRY_PROFILE", "hub")
        setting("FOUNDRY_HUB_REVISIONS", f"qwen3-0.6b={40 * 'a'}")
    step = get_step(name)
    identity = json.loads(json.dumps(step.parse(chosen).identity()))
    assert step.parse(step.params.from_identity(identity)).identity() == identity


def test_values_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match=r"size='1b' is not in the family; sizes are 22m, 33m, .*7\.6b"):
        pretrain.parse({"size": "1b"})
    with pytest.raises(InputError, match="learning_rate='0'"):
        pretrain.parse({"learning_rate": "0"})
    with pytest.raises(InputError, match="in_batch='false'"):
        pretrain.parse({"in_batch": "false"})
