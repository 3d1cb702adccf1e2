"""What holds for every objective, those of tomorrow too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.objectives import NAMES, objective
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import Batch
from tests.training.objectives.tables import example

REQUIRED = {"matryoshka": {"dims": [32, 8]}}
KINDS = {"plain": 0, "full": 2}
LENGTHS = {"max_query_length": 16, "max_passage_length": 32}
each = pytest.mark.parametrize("name", NAMES)


def made(name: str):
    return objective({"name": name, **REQUIRED.get(name, {})})


@pytest.fixture
def taught(rows):
    """The toy rows with a teacher of every second one, and for each another instruction and another query."""
    (given,) = rows.blocks()
    scores = [[0.9 - 0.1 * i for i in range(1 + len(texts))] for texts in given["negatives"].to_pylist()]
    targets = [row if n % 2 else [] for n, row in enumerate(scores)]
    asked = given["query"].to_pylist()
    contrasts = {"other_instructions": [[f"wa {text}"] for text in asked], "other_queries": [["wb tc"]] * len(asked)}
    return Examples.of(given["query"], given["positive"], given["negatives"], targets=targets, **contrasts)


def gradients(folder, rows, **settings) -> tuple[float, dict[str, torch.Tensor]]:
    encoder = load(folder)
    encoder.model.train()
    with TemporaryDirectory() as place:
        data = tokenized(rows, encoder.tokens, Path(place), **LENGTHS)
    params = TrainParams(temperature=0.1, **LENGTHS, **settings)
    loss = Gradients(encoder, data, params).add(Batch(np.arange(len(data)), params.objective), 5)
    return loss, {name: w.grad for name, w in encoder.model.named_parameters() if w.grad is not None}


@each
def test_gradients_of_the_cache_equal_plain_ones(tiny_bert, taught, name) -> None:
    common = {"objective": made(name), "in_batch": True, "micro_batch_tokens": 64}
    plain_loss, plain = gradients(tiny_bert, taught, graph_tokens=10**6, **common)
    cached_loss, cached = gradients(tiny_bert, taught, graph_tokens=64, **common)
    assert cached_loss == pytest.approx(plain_loss, rel=1e-6)
    assert plain.keys() == cached.keys()
    for weights, gradient in plain.items():
        torch.testing.assert_close(cached[weights], gradient, rtol=0, atol=1e-6)


@each
def test_rows_count_alike_however_they_are_grouped(name) -> None:
    queries, passages, table = example(width=32)
    parts = (table.positives, table.candidates, table.answers, table.targets)
    alone = [type(table)(*(part[i : i + 1] for part in parts), table.temperature) for i in range(4)]
    one_by_one = sum(made(name).loss(queries[i : i + 1], passages, alone[i]) for i in range(4)) / 4
    together = made(name).loss(queries, passages, table)
    assert made(name).needs_batch or one_by_one.item() == pytest.approx(together.item(), rel=1e-12)


@each
def test_a_row_that_no_teacher_scored_has_finite_gradients(name) -> None:
    queries, passages, table = example(width=32)
    table.targets[:] = float("nan")
    loss = made(name).loss(queries, passages, table)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (queries, passages), allow_unused=True))


@each
def test_its_description_has_formula_relations_and_source(name) -> None:
    text = type(made(name)).__doc__
    assert all(word in text for word in ("Relations:", "Source:"))


@each
def test_it_is_chosen_by_name_and_counts_in_the_id_of_a_model(name, monkeypatch) -> None:
    given = made(name).model_dump_json()
    chosen = TrainParams(objective=given, device="cpu")
    assert (
        chosen.objective == made(name) == TrainParams(objective=chosen.objective.model_dump(), device="cpu").objective
    )
    before = chosen.identity()["objective"]
    assert before["name"] == name
    monkeypatch.setattr(type(chosen.objective), "code", "of other code")
    assert chosen.identity()["objective"] != before


def test_the_code_of_an_inner_objective_counts_too() -> None:
    distilled = made("kl_distillation").identity()
    assert distilled["hard"] == made("info_nce").identity()


def test_wrappers_need_what_the_inner_objective_needs() -> None:
    wrapped = objective({"name": "matryoshka", "dims": [8], "inner": {"name": "same_tower", "inner": "list_net"}})
    assert wrapped.needs_batch and wrapped.needs_targets
    assert not made("matryoshka").needs_batch and not made("matryoshka").needs_targets


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("list_nett", "'list_nett'; there are .*info_nce, "),
        ('{"name": "list_net", "alpha": 0}', "alpha"),
        ("{", "double quotes"),
    ],
)
def test_a_wrong_choice_says_what_there_is(given: str, message: str) -> None:
    with pytest.raises(InputError, match=f"objective.*{message}"):
        finetune.parse({"objective": given})


@pytest.mark.parametrize("weights", [[0, 0], [-1, -1], [2, -1]])
def test_weights_by_which_nothing_or_the_opposite_is_learned_are_refused(weights) -> None:
    prefixes = {"name": "matryoshka", "dims": [8, 32]}
    inside = {"name": "same_tower", "inner": prefixes | {"weights": weights}}
    for wrong in ({"objective": inside["inner"]}, {"mixture": {"dm": {"objective": inside}}}):
        with pytest.raises(InputError, match=rf"weights=\[{weights[0]}\.0, .* of matryoshka: .* leave weights out"):
            finetune.parse(wrong)
    assert finetune.parse({"objective": prefixes | {"weights": [1, 0]}}).objective.weights == (1, 0)


def test_a_distillation_from_neither_labels_nor_teacher_is_refused() -> None:
    nothing = {"name": "kl_distillation", "hard": None, "weight": 0}
    for wrong in (nothing, {"name": "matryoshka", "dims": [8], "inner": nothing}):
        with pytest.raises(InputError, match="hard=null and weight=0 learns nothing: set weight=1, or name a loss"):
            finetune.parse({"objective": wrong})
    finetune.parse({"objective": nothing | {"hard": "info_nce"}})


def test_a_teacher_that_is_missing_is_missed_before_training(tiny_bert, rows, tmp_path) -> None:
    params = TrainParams(objective="kl_distillation", device="cpu", **LENGTHS)
    with pytest.raises(InputError, match="'kl_distillation' learns from a teacher and no row has its scores"):
        train(rows, Examples.of(), tiny_bert, params, tmp_path)


def test_contrasts_that_are_missing_are_missed_before_training(tiny_bert, rows, tmp_path) -> None:
    params = TrainParams(objective="instruction_contrast", device="cpu", **LENGTHS)
    with pytest.raises(InputError, match="'instruction_contrast' needs other instructions and no row has any"):
        train(rows, Examples.of(), tiny_bert, params, tmp_path)


def test_a_source_that_teaches_nothing_is_missed_beside_one_that_does(tiny_bert, tmp_path) -> None:
    scored = [block(["ta"], ["tb"], [["tc"]], sources=[name], targets=[[1.0, 0.0][:n]]) for name, n in KINDS.items()]
    mixture = {name: {"objective": "list_net"} for name in KINDS}
    params = TrainParams(mixture=mixture, device="cpu", **LENGTHS)
    with pytest.raises(InputError, match="'list_net' learns from a teacher and no row of 'plain' has its scores"):
        train(Examples(lambda: scored), Examples.of(), tiny_bert, params, tmp_path)
    several = TrainParams(in_batch=False, mixture=dict.fromkeys(KINDS, 1), device="cpu", **LENGTHS)
    bare = [block(["ta"], ["tb"], [["tc"] * n], sources=[name]) for name, n in KINDS.items()]
    with pytest.raises(InputError, match="no row of 'plain' has a negative"):
        train(Examples(lambda: bare), Examples.of(), tiny_bert, several, tmp_path / "bare")
    apart = {"plain": {"objective": "same_tower"}, "full": 1}
    among = TrainParams(in_batch=False, mixture=apart, device="cpu", **LENGTHS)
    train(Examples(lambda: bare), Examples.of(), tiny_bert, among, tmp_path / "among")


def test_to_know_the_objectives_no_heavy_library_is_needed() -> None:
    code = (
        "import sys; from pipeline_tasks.training.objectives import NAMES, objective\n"
        f"[objective({{'name': n, **{REQUIRED!r}.get(n, {{}})}}) for n in NAMES]; print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
