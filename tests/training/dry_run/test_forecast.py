"""A dry run counts rows and steps exactly, and says what a named GPU would have to hold and do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pipeline_tasks.cli.costs import CostSources
from pipeline_tasks.cli.plan_chain import Chain, PlannedStep
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES, TRIPLETS
from pipeline_tasks.encoders.trunk import load_tokenizer
from pipeline_tasks.models.gpus import GPUS, cards
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.training.adapt_backbone import adapt_backbone
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.dry_run.cost import Cost
from pipeline_tasks.training.dry_run.forecast import forecast, forecast_lines
from pipeline_tasks.training.dry_run.loads import Load, in_clusters, loads, target_loads
from pipeline_tasks.training.finetune import FinetuneParams, finetune
from pipeline_tasks.training.pretrain import PretrainParams, pretrain
from pipeline_tasks.training.schedule import n_steps, plan_schedule
from tests.stores import put
from tests.training.made import put_model

ROOT = Path(__file__).parents[3]
WORD = "floods "  # seven characters
HELD = "; the others held in fp32, as a model that has learned is saved"
TRAINED = {
    "596m": "596,049,920 parameters, 10,092,544",
    "4b": "4,022,468,096 parameters, 33,030,144",
    "7.6b": "7,568,405,504 parameters, 43,646,976",
}


def pair(number: int, split: str, origin: str = "dm") -> dict:
    ids = {"query_id": f"q{number}", "passage_id": f"p{number}", "positive_id": f"g{number}", "intent": "qa"}
    texts = {"query": WORD * 8, "passage": WORD * 40, "positive": WORD * 400}
    return ids | texts | {"split": split, "origin": origin}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Ten pairs to train on and two to choose by; passages, and triplets with three negatives."""
    store = LocalStore(tmp_path / "store")
    rows = [pair(i, "train" if i < 10 else "dev") for i in range(12)]
    put(store, PAIRS, rows, dataset="mtp")
    texts = [{"passage_id": r["passage_id"], "text": r["passage"], "split": r["split"]} for r in rows]
    put(store, PASSAGES, texts)
    columns = ("query_id", "intent", "query", "positive_id", "positive", "split")
    negatives = {"negative_ids": ["a", "b", "c"], "negatives": [WORD * 20] * 3}
    put(store, TRIPLETS, [{name: r[name] for name in columns} | negatives for r in rows], dataset="mtt/0.95")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    put_model(store, tmp_path / "model", "model/596m/pretrain")
    return store


def read(store: LocalStore, step, **values) -> tuple[Load, Load]:
    job = plan(store, step, values)
    return loads(Inputs(job.open(store)), job.params)


def test_texts_are_counted_as_the_step_reads_them_and_cut_where_it_cuts_them(store):
    train, dev = read(store, pretrain, size="596m")
    query, passage, written = 8 * 7 / 4 + 2, 40 * 7 / 4 + 2, 512
    assert train == Load({"dm": 20}, 40, round(10 * (2 * query + passage + written)))
    assert dev == Load({"qa": 2}, 2 * 2 + 2, round(2 * (query + passage + written)))
    train, _ = read(store, finetune, size="596m", alpha=0.95, n_negatives=2, instruct=False)
    assert train == Load({"mtt/0.95": 10}, 40, round(10 * (query + written + 2 * (20 * 7 / 4 + 2))))
    train, dev = read(store, adapt_backbone, size="596m")
    assert (train, dev) == (Load({"": 10}, 10, 720), Load({"": 2}, 2, 144))


def test_an_instruction_counts_with_the_query(store):
    with_it, without = (read(store, finetune, size="596m", alpha=0.95, instruct=instruct)[0] for instruct in (1, 0))
    assert with_it.n_tokens > without.n_tokens


@pytest.mark.parametrize("mixture", ["", '{"dm": 1, "gd": 0.3}', '{"dm": 2.5, "gd": 0}'])
@pytest.mark.parametrize("epochs", [1, 3])
def test_steps_are_those_of_the_schedule(tiny_bert, tmp_path, mixture, epochs):
    texts = [f"t{i}" for i in range(37)]
    rows = Examples.of(texts, texts, [["ta"]] * 37, sources=["dm"] * 26 + ["gd"] * 11)
    params = PretrainParams(size="33m", batch_size=8, epochs=epochs, mixture=mixture)
    tokenizer = load_tokenizer(tiny_bert)
    from pipeline_tasks.encoders.tokens import TextTokens

    lengths = {"max_query_length": 16, "max_passage_length": 16}
    data = tokenized(rows, TextTokens(tokenizer.backend_tokenizer, ""), tmp_path, **lengths)
    assert n_steps({"dm": 26, "gd": 11}, params) == len(plan_schedule(data, params))


def test_what_a_sampler_takes_to_decide_is_forecast_too():
    load = Load({"dm": 100, "gd": 100}, 400, 40_000)
    plain, sampled, bound = (
        forecast(
            PretrainParams(size="33m", epochs=2, batch_size=10, device="cpu", **more), load, Load({}, 0, 0), half=True
        )
        for more in (
            {},
            {"sampler": {"name": "inf_dds", "warmup_steps": 10, "every": 10, "steps": 3}},
            {"sampler": {"name": "inf_dds", "warmup_steps": 10, "every": 10, "steps": 3}, "budget": 30},
        )
    )
    assert (plain.steps, sampled.steps, bound.steps) == (40, 40, 20)
    # Three decisions of two sources and three steps each; the budget has room for one of them.
    assert (plain.n_tokens, sampled.n_tokens) == (40 * 10 * 200, (40 + 18) * 10 * 200)
    assert bound.n_tokens == (20 + 6) * 10 * 200


@pytest.mark.parametrize(
    ("sampler", "learned", "scored", "held"),
    [
        # 24 rows of one source and 6 of the other make four batches, of 7.5 rows in the mean, of 200 tokens each; of
        # the targets' 100 and 50 rows 60 and 50 are drawn, too many for one graph.
        ({"name": "inf_dds", "steps": 3, "target_batch": 60}, 6 * 1500, 3 * (60 * 200 + 50 * 100), 16),
        ({"name": "inf_dds", "steps": 3, "each_step": True, "reptile": False}, 6 * 1500, 7 * 25_000, 12),
        ({"name": "multi_dds", "target_batch": 60}, 4 * 1500 + 2 * 17_000, 2 * 17_000, 16),
        ({"name": "doge", "trial_steps": 5, "target_batch": 60}, 15 * 1500 + 5 * 17_000, 5 * 17_000, 16),
        ({"name": "doremi", "trial_steps": 5}, 10 * 1500, 6 * (24 + 6) * 200, 12),
    ],
)
def test_a_decision_takes_gradients_scores_and_memory(sampler, learned, scored, held):
    """One decision in the four steps of an epoch."""
    train, targets = Load({"dm": 24, "gd": 6}, 60, 6_000), (Load({"": 100}, 200, 20_000), Load({"": 50}, 100, 5_000))
    once = {"warmup_steps": 2, "every": 9} if sampler["name"] in ("inf_dds", "multi_dds") else {}
    params = PretrainParams(size="33m", batch_size=8, device="cpu", sampler=sampler | once)
    plain = PretrainParams(size="33m", batch_size=8, device="cpu", sampler="uniform")
    found, without = (forecast(one, train, Load({}, 0, 0), targets, half=True) for one in (params, plain))
    assert (found.steps, without.n_tokens) == (4, 6_000)
    assert found.n_tokens - without.n_tokens == learned
    cost = Cost(SHAPES[backbone("33m").name])
    assert found.operations - without.operations == pytest.approx((3 * learned + scored) * cost.forward(100))
    assert "decision" not in without.memory
    assert found.memory["decision"] == held * cost.trained


@pytest.mark.parametrize("kind", [{"name": "multi_dds", "warmup_steps": 2, "every": 100}, {"name": "doge"}])
def test_the_gradient_of_a_target_is_held_like_that_of_a_batch_and_may_be_larger(kind):
    train, target = Load({"dm": 100, "gd": 100}, 400, 40_000), Load({"": 500}, 1000, 100_000)

    def found(**sampler):
        params = PretrainParams(size="33m", batch_size=8, device="cpu", sampler=sampler, graph_tokens=16_384)
        return forecast(params, train, Load({}, 0, 0), [target], half=True)

    batch, small, large = found(name="uniform"), found(**kind, target_batch=8), found(**kind, target_batch=64)
    assert small.memory["activations"] == batch.memory["activations"]
    assert large.memory["activations"] == pytest.approx(8 * batch.memory["activations"], rel=0.01)
    cached = found(**kind, target_batch=256)
    assert cached.memory["activations"] == pytest.approx(16_384 / 1_600 * batch.memory["activations"], rel=0.01)
    per_row = (large.operations - small.operations) / 56
    assert cached.operations - large.operations == pytest.approx((256 * 4 / 3 - 64) * per_row)


def test_targets_are_counted_without_what_their_queries_search_among(store):
    guided = {"size": "596m", "sampler": {"name": "inf_dds", "warmup_steps": 0}}
    job = plan(store, pretrain, guided)
    ((target,), (_, dev)) = target_loads(Inputs(job.open(store)), job.params), read(store, pretrain, **guided)
    assert target.rows == dev.rows and target.n_texts == 2 * 2 < dev.n_texts
    job = plan(store, pretrain, {"size": "596m"})
    assert target_loads(Inputs(job.open(store)), job.params) == []


def test_all_rows_may_be_one_unit_whatever_they_are_of(store):
    text = " ".join(f"Sentence number {i} tells a crew what to do at gate {i}." for i in range(6))
    put(store, PASSAGES, [{"passage_id": "s", "text": text, "split": "train"}], dataset="sentences")
    by_source, as_one = (
        read(store, pretrain, size="596m", cloze_from=["sentences"], **more)[0].rows
        for more in ({}, {"unit": "all", "mixture": {"all": 1}})
    )
    assert (by_source, as_one) == ({"dm": 20, "cloze": 2}, {"all": 22})
    more = {"unit": "all", "mixture": {"all": 1}}
    assert read(store, finetune, size="596m", alpha=0.95, **more)[0].rows == {"all": 10}


def test_clusters_count_as_sources_and_are_taken_to_be_alike_in_size(store):
    guided = {"name": "inf_dds", "warmup_steps": 1, "every": 2, "steps": 1}
    chosen = {"size": "596m", "batch_size": 2, "budget": 10, "sampler": guided, "clusters": 3}
    train, _ = read(store, pretrain, **chosen)
    assert train.rows == {"dm/cluster-0": 6, "dm/cluster-1": 7, "dm/cluster-2": 7}
    # Four steps, and two decisions of three gradients.
    assert n_steps(train.rows, PretrainParams(**chosen)) == 4
    assert in_clusters({"few": 2}, 3) == {"few/cluster-1": 1, "few/cluster-2": 1}


def test_a_mixture_weighs_the_tokens():
    load = Load({"dm": 100, "gd": 100}, 400, 40_000)
    params = PretrainParams(size="33m", epochs=2, batch_size=10, mixture='{"dm": 1, "gd": 0.5}')
    found = forecast(params, load, load, half=True)
    assert (found.steps, found.n_tokens) == (30, 2 * 30_000)


def test_hours_by_hand():
    params = FinetuneParams(size="335m", device="cuda", batch_size=10, n_negatives=1, evals_per_epoch=1)
    train, dev = Load({"": 1000}, 3000, 300_000), Load({"": 10}, 30, 3000)
    found = forecast(params, train, dev, half=True)
    matrices = 24 * 12 * 1024 * 1024
    forward = 2 * matrices + 4 * 24 * 100 * 1024
    assert (found.steps, found.n_tokens) == (100, 300_000)
    assert found.operations == pytest.approx(300_000 * 3 * forward + 2 * 3000 * forward)
    (h100,), (eight,) = cards("H100"), cards("8xH100")
    assert found.hours(h100, half=True) == pytest.approx(found.operations / 71e12 / 3600), "as measured, not 35% of it"
    (l4,) = cards("L4")
    assert found.hours(l4, half=True) == pytest.approx(found.operations / (121e12 * 0.4) / 3600), "it reaches no 71"
    assert [found.speed(one, half=True) for one in (h100, l4)] == [
        "71 TFLOP/s, the most that was measured",
        "40% of the peak assumed",
    ]
    unknown = replace(found, most_tflops=None)
    assert unknown.hours(h100, half=True) == pytest.approx(found.operations / (989e12 * 0.35) / 3600)
    assert found.hours(eight, half=True) == pytest.approx(found.hours(h100, half=True) / 8)
    assert found.hours(h100, half=False) > found.hours(h100, half=True)


def test_what_more_a_card_has_room_for_is_told(store):
    job = plan(store, pretrain, {"size": "335m", "device": "cpu", "micro_batch_tokens": 100, "graph_tokens": 100})
    (card,) = forecast_lines(Inputs(job.open(store)), job.params, "L4")[3:]
    assert card.endswith("fits 22 GiB up to micro_batch_tokens=6400 graph_tokens=6400")
    job = plan(store, pretrain, {"size": "335m", "device": "cpu"})
    (card,) = forecast_lines(Inputs(job.open(store)), job.params, "L4")[3:]
    assert card.endswith("fits 22 GiB")


def test_a_dry_run_tells_it_without_weights(store, tmp_path):
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "run", "pretrain", "--set", "size=596m"]
    places = {"FOUNDRY_STORE": str(store.root), "FOUNDRY_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], env=os.environ | places, capture_output=True, text=True, check=False)

    done = run("--dry-run", "--on", "4xH100")
    assert done.returncode == 0, done.stderr
    first, size, rows, memory, hours = done.stdout.splitlines()
    assert first.startswith("model/596m/pretrain would be made anew")
    assert size == "596m: 596,049,920 parameters, 10,092,544 of them trained, in bf16" + HELD
    assert rows.startswith("20 rows: 1 steps of 384, about 6,")
    assert memory.startswith("GiB on a card: ")
    assert hours.startswith("4 x H100: 0.0 minutes (32 TFLOP/s, the most that was measured); fits 79 GiB")
    assert run("--on", "4xH100").returncode == 2
    refused = run("--dry-run", "--on", "T4000")
    assert refused.returncode == 2
    assert "'T4000' is no GPU that is known; name one of H200, H100" in refused.stderr


def test_without_a_name_every_kind_of_card_is_told_of_all_large_sizes(store):
    for size, trained in TRAINED.items():
        job = plan(store, pretrain, {"size": size})
        lines = forecast_lines(Inputs(job.open(store)), job.params)
        assert lines[0] == f"{size}: {trained} of them trained, in bf16{HELD}"
        assert [line.split(":")[0] for line in lines[3:]] == [f"1 x {name}" for name in GPUS]


@pytest.mark.parametrize(("precision", "has", "said"), [("bf16", False, 1), ("bf16", True, 0), ("fp32", False, 0)])
def test_a_processor_that_is_slow_in_bf16_is_told_of(store, monkeypatch, precision, has, said):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": has})
    job = plan(store, pretrain, {"size": "596m", "device": "cpu", "precision": precision})
    lines = forecast_lines(Inputs(job.open(store)), job.params, "H100")[4:]
    assert [line.startswith("precision=bf16, and this processor has no instructions") for line in lines] == [
        True
    ] * said


def test_what_is_told_of_several_cards_is_what_each_of_them_holds(store):
    job = plan(store, pretrain, {"size": "4b", "lora_rank": 0, "sharding": "zero1"})
    of = [forecast_lines(Inputs(job.open(store)), job.params, on)[2] for on in ("H100", "4xH100")]
    moments = [line.split("optimiser ")[1] for line in of]
    assert [part.split(",")[0] for part in moments] == ["29.97", "7.49"]


@pytest.mark.parametrize("text", ["0xH100", "xH100", "H100x2", "h100", "2x"])
def test_cards_that_are_none_are_refused(text):
    with pytest.raises(InputError, match="is no GPU that is known"):
        cards(text)


def test_a_plan_has_the_hours_of_the_cards_that_it_is_told(store):
    job = plan(store, pretrain, {"size": "596m"})
    asked = PlannedStep(pretrain, {"size": "596m"}, {}, "it")
    (line,) = forecast_lines(Inputs(job.open(store)), job.params, "2xL4")[3:]
    rates = Rates.of(store)
    cost = Chain(CostSources(store, rates, "2xL4", 2.0)).add(asked).cost
    assert line.startswith(f"2 x L4: {60 * cost.hours.value:.1f} minutes")
    assert (cost.source, cost.dollars.value) == ("arithmetic for 2xL4", 0)
    unnamed = Chain(CostSources(store, rates, "", 2.0)).add(asked).cost
    assert unnamed.hours.value is None and unnamed.source.endswith("name cards with --on")
    with pytest.raises(InputError, match="no GPU that is known"):
        Chain(CostSources(store, rates, "Z9", 2.0)).add(asked)
