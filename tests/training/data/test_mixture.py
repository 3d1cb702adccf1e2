"""Several sources in one training: homogeneous batches, as often as their weights say."""

from collections import Counter

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import plan_schedule

LENGTHS = {"max_query_length": 16, "max_passage_length": 32}
OF = np.repeat(["dm", "gd"], [24, 12])


def mixed(rows: Examples) -> Examples:
    """The toy rows, and half of them again from another source."""
    (given,) = rows.blocks()
    queries, positives, negatives = (given[name].to_pylist() for name in ("query", "positive", "negatives"))
    return Examples.of(queries + queries[:12], positives + positives[:12], negatives + negatives[:12], sources=OF)


@pytest.fixture
def data(rows, tiny_bert, tmp_path) -> Rows:
    return tokenized(mixed(rows), load(tiny_bert).tokens, tmp_path, **LENGTHS)


def params(mixture, **more) -> TrainParams:
    return TrainParams(mixture=mixture, batch_size=6, device="cpu", **LENGTHS, **more)


def seen(data: Rows, mixture, **more) -> list[str]:
    """The source of every batch; asserts that it has one."""
    batches = plan_schedule(data, params(mixture, **more))
    assert all(len(set(OF[batch.rows])) == 1 for batch in batches)
    return [OF[batch.rows[0]] for batch in batches]


def test_without_a_mixture_rows_of_all_sources_meet(data) -> None:
    batches = plan_schedule(data, params(""))
    assert any(len(set(OF[batch.rows])) == 2 for batch in batches)
    assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(36))


def test_a_batch_has_one_source_and_sources_take_turns(data) -> None:
    assert seen(data, {"dm": 1, "gd": 1}) == ["dm", "gd", "dm", "dm", "gd", "dm"]


@pytest.mark.parametrize(("weight", "times"), [(0, 0), (0.5, 1), (1, 2), (2.5, 5)])
def test_weight_is_how_often_a_row_is_seen_an_epoch(data, weight: float, times: int) -> None:
    batches = plan_schedule(data, params({"dm": 1, "gd": weight}, epochs=2))
    rows = Counter(np.concatenate([batch.rows for batch in batches]).tolist())
    assert {rows[row] for row in range(24)} == {2}
    assert {rows[row] for row in range(24, 36)} == {times}


def test_the_schedule_is_a_function_of_the_arguments(data) -> None:
    first, again = (plan_schedule(data, params({"dm": 1, "gd": 1}, epochs=2)) for _ in range(2))
    assert all((a.rows == b.rows).all() for a, b in zip(first, again, strict=True))
    other = plan_schedule(data, params({"dm": 1, "gd": 1}, epochs=2, seed=1))
    assert any((a.rows != b.rows).any() for a, b in zip(first, other, strict=True))


def test_every_source_has_its_objective(data) -> None:
    chosen = {"dm": 1, "gd": {"objective": {"name": "same_tower", "inner": "info_nce"}}}
    batches = plan_schedule(data, params(chosen))
    assert {(OF[batch.rows[0]], batch.objective.name) for batch in batches} == {
        ("dm", "info_nce"),
        ("gd", "same_tower"),
    }


def test_a_source_of_weight_nothing_changes_nothing(rows, tiny_bert, tmp_path) -> None:
    (given,) = rows.blocks()
    alone = Examples.of(given["query"], given["positive"], given["negatives"], sources=["dm"] * len(given))
    common = {"learning_rate": 1e-3, "epochs": 2}
    with_it = train(mixed(rows), Examples.of(), tiny_bert, params({"dm": 1, "gd": 0}, **common), tmp_path / "a")
    without = train(alone, Examples.of(), tiny_bert, params({"dm": 1}, **common), tmp_path / "b")
    assert with_it.losses == without.losses


def test_weights_and_objectives_are_in_the_id() -> None:
    ids = [params(mixture).identity() for mixture in ("", {"dm": 1}, {"dm": 2}, {"dm": {"objective": "list_mle"}})]
    assert all(one != other for at, one in enumerate(ids) for other in ids[:at])
    assert params('{"dm": 1}').identity() == params({"dm": {"weight": 1.0}}).identity()


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({"dm": 1}, "leaves out gd; the rows are of dm, gd"),
        ({"dm": 1, "gd": 1, "web": 1}, "names web, of which there are no rows"),
        ({"dm": 0, "gd": 0}, "every source the weight 0"),
        ({"dm": 1, "gd": 0.25}, "'gd' the weight 0.25, which is no whole batch of its 12 rows in 1 epochs of batches"),
    ],
)
def test_a_mixture_that_does_not_fit_the_rows_is_refused(data, mixture, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_schedule(data, params(mixture))


@pytest.mark.parametrize("given", ["{", "[1]", '{"dm": -1}', '{"dm": {"wait": 1}}', '{"dm": {"objective": "x"}}'])
def test_a_wrong_mixture_names_the_field(given: str) -> None:
    with pytest.raises(InputError, match="mixture"):
        finetune.parse({"mixture": given})


@pytest.mark.parametrize("weight", [float("inf"), float("nan")])
def test_a_weight_is_a_number(weight) -> None:
    with pytest.raises(ValueError, match="finite"):
        params({"dm": weight})
