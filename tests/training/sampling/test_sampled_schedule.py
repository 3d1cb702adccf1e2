"""A sampler decides while the model trains: what it decides is repeated to the bit, and what it costs is counted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.curves.curve import curve
from pipeline_tasks.training.curves.trajectory import trajectory
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.loop import TrainResult
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.samplers import NAMES, sampler
from pipeline_tasks.training.sampling.targets import RowSample
from tests.forked import forked

REQUIRED = {"expert": {"weights": {"help": 3, "harm": 1, "none": 1}}}
SMALL = {
    "batch_size": 8, "learning_rate": 3e-3, "temperature": 0.1, "max_query_length": 16, "max_passage_length": 32,
    "evals_per_epoch": 1, "checkpoint_every_steps": 1, "device": "cpu", "in_batch": True,
}  # fmt: skip
INF_DDS = {
    "name": "inf_dds", "every": 2, "warmup_steps": 1, "steps": 2, "target_batch": 8, "reptile_rate": 0.5, "rate": 0.5,
}  # fmt: skip


def chosen(**more) -> TrainParams:
    return TrainParams(**SMALL | more)


@pytest.fixture(scope="module")
def mixed(many_rows: Examples) -> Examples:
    """Rows that teach what development queries ask, rows with the positives of others, and rows about nothing."""
    (given,) = many_rows.blocks()
    queries, positives = given["query"].to_pylist()[:96], given["positive"].to_pylist()[:96]
    nothing = [f"w{'abcdefgh'[i % 8]}" for i in range(24)]
    return Examples.of(
        queries + queries[:48] + nothing,
        positives + positives[7:48] + positives[:7] + nothing[3:] + nothing[:3],
        sources=["help"] * 96 + ["harm"] * 48 + ["none"] * 24,
    )


def same(one: TrainResult, other: TrainResult) -> bool:
    weights = (result.encoder.model.state_dict() for result in (one, other))
    mine, theirs = ({name: w.numpy().tobytes() for name, w in some.items()} for some in weights)
    return (
        mine == theirs
        and one.losses == other.losses
        and trajectory(one.trajectory).equals(trajectory(other.trajectory))
    )


def end_of(result: TrainResult) -> dict[str, float]:
    last = result.trajectory[-1]
    return dict(zip(last["sources"], last["probabilities"], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_trains_and_says_what_it_did(tiny_bert, mixed, dev, tmp_path, name: str) -> None:
    small = {"every": 4, "warmup_steps": 1, "trial_steps": 2}
    given = {"name": name, **REQUIRED.get(name, {})}
    given |= {field: value for field, value in small.items() if field in type(sampler(given)).model_fields}
    params = chosen(sampler=given, budget=18, clusters=2 if sampler(given).needs_clusters else None)
    result = train(mixed, dev, tiny_bert, params, tmp_path, targets={"one": dev, "two": dev})
    rows = trajectory(result.trajectory).to_pylist()
    units = {"help", "harm", "none"}
    if params.clusters:
        units = {f"{source}/cluster-{number}" for source in units for number in range(2)}
    assert {row["source"] for row in rows} == units
    by_point = np.array([row["probability"] for row in rows]).reshape(-1, len(units))
    np.testing.assert_allclose(by_point.sum(axis=1), 1)
    last = rows[-1]
    assert last["optimiser_step"] == result.steps
    assert last["gradients"] == result.steps + last["deciding_gradients"] <= 18
    assert last["gradients"] + params.sampler.takes(3).gradients + 1 > 18
    assert sum(row["n_batches"] for row in rows[-len(units) :]) >= result.steps
    assert (
        (last["n_deciding_tokens"] > 0) == (last["deciding_gradients"] > 0) == (params.sampler.takes(3).gradients > 0)
    )


def test_static_ones_are_what_their_formulas_say(mixed, tiny_bert, tmp_path) -> None:
    from pipeline_tasks.training.sampler import Pool

    pool = Pool(["help", "harm", "none"], np.array([96, 48, 24]), 10)

    def likely(given, step: int = 0) -> list[float]:
        chosen = sampler(given)
        return chosen.probabilities(pool, chosen.begin(pool), step).tolist()

    assert likely("uniform") == pytest.approx([1 / 3] * 3)
    assert likely("proportional") == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert likely({"name": "temperature", "tau": 0.5}) == pytest.approx([16 / 21, 4 / 21, 1 / 21])
    assert likely({"name": "expert", **REQUIRED["expert"]}) == pytest.approx([0.6, 0.2, 0.2])
    cooldown = {"name": "cooldown", "first": 1e9, "last": 1, "until": 0.5}
    assert [likely(cooldown, step) for step in (4, 5)] == [
        pytest.approx(likely("uniform")),
        pytest.approx(likely("proportional")),
    ]
    with pytest.raises(InputError, match="weights are of a, and the rows are of harm, help, none"):
        likely({"name": "expert", "weights": {"a": 1}})


def test_the_source_that_helps_ends_highest_and_the_one_that_harms_lowest(tiny_bert, mixed, dev, tmp_path) -> None:
    result = train(mixed, dev, tiny_bert, chosen(sampler={**INF_DDS, "target_batch": 24}, budget=60), tmp_path)
    likely = end_of(result)
    assert likely["help"] == max(likely.values())
    assert likely["harm"] == min(likely.values())
    tried = [row for row in trajectory(result.trajectory).to_pylist() if row["influence"] is not None]
    assert all(row["influences"] == [("dev", row["influence"])] for row in tried)


def killed(mixed: Examples, dev: Examples, backbone: Path, params: TrainParams, work: Path, at: int) -> None:
    """Train, and die by SIGKILL in the middle of the optimiser step of that number, those of decisions counted."""
    from pipeline_tasks.training.descent import Descent

    learn, done = Descent.learn, []

    def dies(self, add, rows, step):
        done.append(step)
        if len(done) == at:
            add()
            os.kill(os.getpid(), signal.SIGKILL)
        return learn(self, add, rows, step)

    Descent.learn = dies
    train(mixed, dev, backbone, params, work)


@pytest.mark.parametrize("clusters", [None, 2])
def test_killed_in_the_middle_of_a_decision_it_ends_in_the_same_bytes(
    tiny_bert, mixed, dev, tmp_path, clusters
) -> None:
    params = chosen(sampler={**INF_DDS, "steps": 1} if clusters else INF_DDS, clusters=clusters, budget=16)
    whole = train(mixed, dev, tiny_bert, params, tmp_path / "whole")
    assert whole.trajectory[-1]["deciding"] > 0
    # One step, a decision of six, two steps: the twelfth is in the second decision.
    process = forked().Process(target=killed, args=(mixed, dev, tiny_bert, params, tmp_path / "killed", 12))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    resumed = train(mixed, dev, tiny_bert, params, tmp_path / "killed")
    assert resumed.resumed_at == 3
    assert same(resumed, whole)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampler": "best"}, "no sampler 'best'; there are .*inf_dds"),
        ({"sampler": "uniform", "mixture": {"dm": 2}}, "leave the weights of the mixture at 1"),
        ({"budget": 10}, "targets, clusters and budget are a sampler's"),
        ({"clusters": 8}, "clusters and budget are a sampler's"),
        ({"sampler": "crisp"}, "sampler='crisp' weighs clusters: say how many, such as clusters=32"),
        ({"sampler": {"name": "inf_dds", "rule": "best"}}, "rule"),
        ({"sampler": {"name": "inf_dds", "sources": 1}}, "greater than or equal to 2"),
        ({"sampler": {"name": "inf_dds", "rate": float("inf")}}, "finite number"),
        ({"sampler": {"name": "expert", "weights": {"a": float("nan")}}}, "finite number"),
        ({"sampler": {"name": "inf_dds", "start": "multi_dds"}}, "'multi_dds' decides while a model trains"),
        ({"sampler": {"name": "doremi", "reference": "doge"}}, "'doge' decides while a model trains"),
        ({"sampler": {"name": "inf_dds", "start": "crisp"}}, "sampler='crisp' weighs clusters"),
        ({"sampler": {"name": "inf_dds", "start": {"name": "crisp"}}}, "sampler='crisp' weighs clusters"),
        ({"sampler": [1]}, "a sampler is a name, or JSON of name and parameters, not .1."),
        ({"sampler": "uniform", "targets": ("a",)}, "sampler='uniform' looks at no targets"),
        ({"unit": "intent"}, "unit='intent' is what a mixture or a sampler chooses among"),
    ],
)
def test_what_makes_no_sense_is_refused(given, message: str) -> None:
    with pytest.raises(InputError, match=message):
        finetune.parse(given)


SOON = {"name": "inf_dds", "warmup_steps": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampler": "doremi", "budget": 5}, "first decision takes 40 gradients before step 1, and there is budget=5"),
        ({"sampler": {"name": "inf_dds", "warmup_steps": 21}}, "3 gradients before step 22, and there is 21 steps"),
    ],
)
def test_a_sampler_that_would_never_decide_is_refused(tiny_bert, mixed, dev, tmp_path, given, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(mixed, dev, tiny_bert, chosen(**given), tmp_path)


def test_one_source_and_targets_of_one_query_leave_nothing_to_choose(
    tiny_bert, many_rows, mixed, dev, tmp_path
) -> None:
    with pytest.raises(InputError, match="has 1 source to choose among: give rows of more, or say clusters=8"):
        train(many_rows, dev, tiny_bert, chosen(sampler=SOON), tmp_path / "one")
    with pytest.raises(InputError, match="guided by targets, and of 'dev' the answers of 0 queries are known"):
        train(mixed, Examples.of(), tiny_bert, chosen(sampler=SOON), tmp_path / "none")
    few = {"one": Examples.of(["ta tb"] * 2, ["wa", "wb"], others=["wc"])}
    with pytest.raises(InputError, match="guided by targets, and of 'one' the answers of 1 queries are known"):
        train(mixed, dev, tiny_bert, chosen(sampler=SOON), tmp_path / "few", targets=few)


@pytest.mark.parametrize("name", ["doge", "doremi"])
def test_a_trial_is_at_the_peak_learning_rate_whatever_the_warm_up(tiny_bert, mixed, dev, tmp_path, name) -> None:
    ways = {}
    for share in (0.0, 0.5):
        params = chosen(sampler={"name": name, "trial_steps": 3}, budget=30, warmup_ratio=share)
        result = train(mixed, dev, tiny_bert, params, tmp_path / f"{share}")
        assert len({round(value, 12) for value in end_of(result).values()}) == 3
        ways[share] = end_of(result)
        assert result.trajectory[0]["targets"] == (["dev"] if name == "doge" else [])
    assert ways[0.0] == ways[0.5]


def test_a_trial_that_diverges_names_the_remedy(tiny_bert, mixed, dev, tmp_path) -> None:
    params = chosen(sampler={"name": "doge", "mu": 5e-324, "trial_steps": 3}, budget=30)
    with pytest.raises(InputError, match="lower the sampler's rate"):
        train(mixed, dev, tiny_bert, params, tmp_path)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ((Descent, "mark"), r"at step 1: lower micro_batch_tokens \(\d+\), target_batch of the sampler \(8\)"),
        ((Gradients, "add"), r"at step 0: lower micro_batch_tokens"),
        ((RowSample, "score"), r"at step 1: lower micro_batch_tokens"),
    ],
)
def test_a_full_gpu_is_told_of_wherever_it_fills(tiny_bert, mixed, dev, tmp_path, monkeypatch, what, told) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(*what, full)
    with pytest.raises(InputError, match=f"the GPU's memory is full {told}"):
        train(mixed, dev, tiny_bert, chosen(sampler=INF_DDS, budget=30), tmp_path)


def test_an_epoch_is_as_many_rows_as_there_are(tiny_bert, mixed, dev, tmp_path) -> None:
    params = chosen(sampler="uniform", budget=42, epochs=5)
    result = train(mixed, dev, tiny_bert, params, tmp_path)
    assert result.epochs == sum(result.rows) / 168
    assert curve(result, params)["epoch"].to_pylist()[-1] == result.epochs
