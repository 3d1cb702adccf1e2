"""Versions that differ by their seed alone are one model with a spread, and a difference is measured by it."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.evaluation.seeds import Group, apart, groups, noise_in_words, recipe

INTENTS = ("qa",) * 40 + ("nli",) * 20


def group(rng: np.random.Generator, base: np.ndarray, gain: float, sd: float, n_seeds: int = 3) -> Group:
    """Seeds that move a whole model by ``sd``, and each query a little."""
    values = base + gain + rng.normal(0, sd, (n_seeds, 1)) + rng.normal(0, 0.05, (n_seeds, len(base)))
    return Group("m", tuple(map(str, range(n_seeds))), values, INTENTS)


def test_an_interval_over_three_seeds_holds_the_truth_as_often_as_it_says():
    held = np.zeros(2)
    for trial in range(200):
        rng = np.random.default_rng(trial)
        base = rng.random(len(INTENTS))
        found = apart(group(rng, base, 0.05, 0.02), group(rng, base, 0, 0.02))
        held += [low <= 0.05 <= high for low, high in (found.seeds, found.both)]
    assert all(0.9 <= share <= 0.99 for share in held / 200), held


@pytest.mark.parametrize(
    ("gain", "sd", "verdict"),
    [(0.1, 0.005, "more than other seeds or other queries"), (0.02, 0.03, "not more than seed noise")],
)
def test_a_difference_is_told_from_the_noise_of_seeds(gain, sd, verdict):
    rng = np.random.default_rng(5)
    base = rng.random(len(INTENTS))
    assert verdict in apart(group(rng, base, gain, sd), group(rng, base, 0, sd)).in_words()


def test_a_difference_that_hangs_on_few_queries_is_not_sure_however_alike_the_seeds_are():
    values = np.zeros((3, len(INTENTS)))
    better = values + np.eye(1, len(INTENTS)) + np.array([[0.001], [0.0], [-0.001]])
    found = apart(Group("m", ("a", "b", "c"), better, INTENTS), Group("start", ("s",), values[:1], INTENTS))
    assert found.seeds[0] > 0 > found.both[0] and "other queries may say otherwise" in found.in_words()


def test_an_intent_of_one_query_adds_what_the_others_vary_by():
    chance = np.random.default_rng(0).normal(0, 0.1, 60)
    seeds = np.array([[0.001], [0.0], [-0.001]])
    intents = ("qa",) * 60 + ("nli",)
    better, zero = np.append(chance, 0.9) + seeds, np.zeros((1, 61))
    found = apart(Group("m", ("a", "b", "c"), better, intents), Group("start", ("s",), zero, intents))
    assert found.both[1] - found.both[0] > 10 * (found.seeds[1] - found.seeds[0])


def put(store: LocalStore, stage: str, name: str, code: str = "1", inputs: dict | None = None, **params: object) -> str:
    """A version of a model, as if its step had made it."""
    facts = {"rows_schema": "files", "key": "name", "parts": [], "rows": 0, "params": params, "inputs": inputs or {}}
    made = Manifest(dataset=f"model/22m/{stage}", id=name * 16, step=stage, code_version=code, **facts)
    commit(store, made)
    return str(made.ref)


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Two seeds of a chain of two models, one of other data, one of another code version."""
    store = LocalStore(tmp_path)
    for name, seed, data, code in (
        ("a", 0, "mtt/0.75@1", "1"), ("b", 1, "mtt/0.75@1", "1"), ("c", 0, "mtt/0.75@2", "1"),
        ("d", 1, "mtt/0.75@1", "2"),
    ):  # fmt: skip
        begun = put(store, "pretrain", name, code, {"pairs": ["mtp@1"]}, seed=seed, batch_size=16)
        inputs = {"triplets": [data], "init": [begun]}
        put(store, "finetune", name, code, inputs, seed=seed, batch_size=16)
    return store


def named(name: str) -> str:
    return str(Ref(dataset="model/22m/finetune", version=name * 16))


def test_versions_that_differ_by_their_seeds_alone_are_one_model(store):
    assert recipe(store, named("a")) == recipe(store, named("b"))
    assert len({recipe(store, named(name)) for name in "abcde"}) == 4, "e is not in the store"


@pytest.mark.parametrize(("step", "seeded"), [("pretrain", {"seed": 0}), ("corpus", {"seed": 1}), ("ordered", {})])
def test_models_that_name_the_versions_that_they_began_as_are_one_model(store, step, seeded):
    begun = {"1": "a", "2": "b", "3": "c", "4": "e"}
    made = [
        put(store, step, name, inputs={"init": [named(of)]}, start_from=[named(of)], **seeded)
        for name, of in begun.items()
    ]
    one, other, *rest = (recipe(store, model) for model in made)
    assert one == other and len({one, *rest}) == 3


def test_means_of_models_that_differ_by_their_seeds_alone_are_one_model(store):
    def mean(name: str, *members: str, **more: object) -> str:
        models = [named(member) for member in members]
        return put(store, "average", name, inputs={"models": models}, models=models, **more)

    begun = [
        put(store, "finetune", name, inputs={"init": [mean(name, *members)]}, seed=seed)
        for name, members, seed in (("1", "ac", 0), ("2", "bc", 1), ("3", "cb", 0), ("4", "acb", 0))
    ]
    assert len({recipe(store, model) for model in begun[:2]}) == 1
    assert len({recipe(store, model) for model in begun}) == 3
    weighed = [mean(name, "a", "c", weights=[1, share]) for name, share in (("5", 1), ("6", 2))]
    assert len({recipe(store, model) for model in weighed}) == 2


def test_what_is_said_names_spread_and_difference(store):
    scores = {"22m/untrained": 0.2, "22m/finetune@a": 0.50, "22m/finetune@b": 0.52, "22m/finetune@c": 0.3}
    queries = [f"q{i}" for i in range(20)]
    by_system = {name: {q: mean + i / 1000 for i, q in enumerate(queries)} for name, mean in scores.items()}
    models = {name: named(name[-1]) if "@" in name else "" for name in scores}
    found = Scores("eval/s@1", "ndcg@10", by_system, dict.fromkeys(queries, "qa"), models)
    assert [group.systems for group in groups(store, found)] == [
        ("22m/finetune@b", "22m/finetune@a"), ("22m/finetune@c",), ("22m/untrained",),
    ]  # fmt: skip
    told = noise_in_words(store, found, "22m/untrained")
    assert told[0] == "22m/finetune@b, 2 seeds: mean 0.520, standard deviation 0.0141, 0.510 to 0.530"
    assert [line.partition(":")[0] for line in told[1:]] == ["22m/finetune@b against 22m/untrained"]
    assert noise_in_words(store, found, "22m/finetune@a")[1].startswith("22m/finetune@c against 22m/finetune@b: -0.2")
