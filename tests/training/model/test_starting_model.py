"""A forecast is of the model that a training starts from, whatever the size's backbone is."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import TRIPLETS
from pipeline_tasks.models.gpus import cards
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.training.adapt_backbone import AdaptParams
from pipeline_tasks.training.dry_run.forecast import forecast, forecast_lines, hours
from pipeline_tasks.training.dry_run.loads import Load
from pipeline_tasks.training.finetune import FinetuneParams, finetune
from pipeline_tasks.training.model.starting_model import StartingModel, untrained_model
from tests.stores import put
from tests.training.made import put_model

LOAD = Load({"": 1000}, 3000, 300_000)


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    row = {"query_id": "q", "intent": "qa", "query": "floods", "positive_id": "p", "positive": "floods"}
    negatives = {"negative_ids": ["n"], "negatives": ["storms"]}
    put(store, TRIPLETS, [row | negatives | {"split": split} for split in ("train", "dev")], dataset="mtt/0.95")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return store


def begin(store: LocalStore, name: str, size: str = "33m") -> tuple[list[str], float | None]:
    """What is told of a fine-tuning of a model that was made from the backbone ``name``."""
    version, made = short_id(name), {"backbone": {"name": name}}
    put_model(store, store.root.parent / "model", f"model/{size}/pretrain", version, **made)
    job = plan(store, finetune, {"size": size, "alpha": 0.95})
    inputs = Inputs(job.open(store))
    return forecast_lines(inputs, job.params, "H100"), hours(inputs, job.params, "H100")


def test_fine_tuning_is_counted_by_the_backbone_of_the_model_that_it_starts_from(store):
    lines, took = begin(store, "bert-base-uncased")
    assert lines[0].startswith(f"33m: {SHAPES['bert-base-uncased'].n_params:,} parameters") and took
    lines, took = begin(store, "folder-0123456789abcdef")
    assert lines == [
        "folder-0123456789abcdef is not in models/data/shapes.toml, so what its training would take is not known"
    ]
    assert took is None


def test_what_frozen_weights_are_held_in_is_told_with_why(store):
    lines, _ = begin(store, "qwen3-0.6b", "596m")
    assert lines[0].endswith("in bf16; the others held in fp32, as a model that has learned is saved")
    assert float(lines[2].split("weights ")[1].split(",")[0]) > 4 * 596e6 / 2**30
    lines, _ = begin(store, "bert-base-uncased")
    assert lines[0].endswith("of them trained, in bf16")


@pytest.mark.parametrize(("profile", "held"), [("offline", 4), ("hub", 2)])
def test_weights_that_were_read_back_from_fewer_bits_are_counted_in_float32(monkeypatch, profile, held):
    monkeypatch.setenv("FOUNDRY_PROFILE", profile)
    settings.cache_clear()
    params = AdaptParams(size="135m", device="cuda", precision="bf16")
    counted = forecast(params, LOAD, LOAD, half=True).memory["weights"]
    n, adapters = SHAPES["smollm2-135m"].n_params, 4_884_480
    copies = 2 * SHAPES["smollm2-135m"].matrix_params * (held == 4)
    assert counted == held * n + 4 * adapters + copies


def test_a_dry_run_counts_the_adapters_of_all_matrices_where_none_is_named_and_refuses_names_of_none(store):
    begin(store, "bert-base-uncased")
    chosen = {"size": "33m", "alpha": 0.95, "lora_rank": 16}
    job = plan(store, finetune, chosen)
    (first, *_) = forecast_lines(Inputs(job.open(store)), job.params, "H100")
    assert f", {12 * 16 * (4 * 2 * 768 + 2 * (768 + 3072)):,} of them trained" in first
    job = plan(store, finetune, chosen | {"lora_targets": ["q_proj"]})
    with pytest.raises(
        InputError, match=r"\['q_proj'\]: bert-base-uncased has no such .*name some of dense, key, query"
    ):
        forecast_lines(Inputs(job.open(store)), job.params, "H100")


def test_weights_that_have_learned_are_counted_in_float32():
    params = FinetuneParams(size="7.6b", device="cuda", alpha=0.95)
    came = forecast(params, LOAD, LOAD, half=True)
    name, trained = untrained_model(params).name, StartingModel(untrained_model(params).name, trained=True)
    found = forecast(params, LOAD, LOAD, half=True, start=trained)
    assert found.memory["weights"] - came.memory["weights"] >= 2 * SHAPES[name].n_params
    (h100,) = cards("H100")
    assert came.fits(h100) and not found.fits(h100)
    recomputed = params.model_copy(update={"recompute": True})
    assert forecast(recomputed, LOAD, LOAD, half=True, start=trained).fits(h100)
    adapted = AdaptParams(size="7.6b", device="cuda")
    assert untrained_model(adapted) == StartingModel(name, trained=False)
