"""``foundry plan``: what a chain would do and take, found from the store and from what its runs took so far."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pipeline_tasks.cli.costs import CostSources, Figure
from pipeline_tasks.cli.plan import plan_command, show
from pipeline_tasks.cli.plan_chain import Chain, Line, PlannedStep, totals
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.judge_instructions import judge_instructions
from pipeline_tasks.evaluation.judge_queries import judge_queries
from pipeline_tasks.evaluation.pool_passages import pool_passages
from pipeline_tasks.evaluation.sample_queries import sample_queries
from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
from pipeline_tasks.training.adapt_to_corpus import adapt_to_corpus
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.distill import distill
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.follow_instructions import follow_instructions
from pipeline_tasks.training.pretrain import pretrain
from tests.core.toy_steps import make, toy_bare, toy_list, toy_scale, toy_tally, toy_total, toy_unique
from tests.stores import put

WORLD = {f"item{n}": n for n in range(8)}
STEPS = (toy_scale, toy_unique, toy_bare, toy_total)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    return LocalStore(tmp_path / "store")


def planned(store: LocalStore, *steps: Step, **values: object) -> list[Line]:
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    return [chain.add(PlannedStep(s, values, {}, s.output(s.parse(values)))) for s in steps]


def told(lines: list[Line]) -> list[tuple[str, str, str]]:
    return [(line.todo, line.rows.text(), line.cost.hours.text(".0f")) for line in lines]


def test_what_nobody_measured_is_not_made_up(store):
    make(store, toy_list, rows=WORLD)
    lines = planned(store, *STEPS)
    assert told(lines) == [
        ("4 of 4 parts", "8", "?"),
        ("after toy_scale", "?", "?"),
        ("after toy_unique", "?", "?"),
        ("after toy_bare", "?", "?"),
    ]
    assert {line.cost.source for line in lines} == {"not measured: no run built it on this store"}
    assert lines[0].size_bytes.value > 0 and lines[1].size_bytes.value is None
    hours, dollars, missing = totals(lines)
    assert (hours.value, dollars.value, missing) == (0, 0, [step.name for step in STEPS])


def test_a_refresh_is_extrapolated_down_the_chain_from_what_runs_took_and_made(store):
    make(store, toy_list, rows=WORLD)
    for step in STEPS:
        make(store, step)
    assert [line.todo for line in planned(store, *STEPS)] == ["nothing: it is there"] * 4
    assert {line.cost.hours.value for line in planned(store, *STEPS)} == {0}
    make(store, toy_list, rows=WORLD | {"new1": 8, "new2": 9})
    scale, unique, bare, total = planned(store, *STEPS)
    rates = Rates.of(store)
    assert (scale.todo, scale.rows) == ("1 of 5 parts", Figure(2))
    assert scale.cost.hours == Figure(rates.rate(toy_scale, "scaled").hours_for(2), sure=False)
    assert (unique.rows.text(), bare.rows.text(), total.rows.text()) == ("~10", "~2", "~10")
    assert bare.cost.hours.value == pytest.approx(rates.rate(toy_bare, "bare").hours_for(2))
    assert bare.size_bytes.value == pytest.approx(2 * rates.row_bytes(toy_unique, "unique"))
    make(store, toy_scale)
    scale, unique, bare, total = planned(store, *STEPS)
    assert (scale.todo, unique.todo) == ("nothing: it is there", "anew")
    assert (unique.rows.text(), bare.rows.text(), total.rows.text()) == ("10", "~2", "~10")


def test_what_looks_outside_is_counted_with_its_latest_version(store):
    make(store, toy_list, rows=WORLD)
    make(store, toy_scale)
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    listed = chain.add(PlannedStep(toy_list, {"rows": {"a": 1}}, {}, "items"))
    scaled = chain.add(PlannedStep(toy_scale, {}, {}, "scaled"))
    assert (listed.todo, scaled.todo) == ("looks outside", "nothing: it is there")
    assert listed.cost.notes == [
        f"toy_list looks outside: what reads it is counted with {listed.made.ref}, its latest version"
    ]


def test_the_table_says_all_of_it_and_its_total(store, capsys):
    make(store, toy_list, rows=WORLD)
    make(store, toy_tally)
    make(store, toy_list, rows=WORLD | {"new": 8})
    show(planned(store, toy_tally, toy_scale), ["toy_bare", "toy_bare"])
    table, lines = capsys.readouterr().out.split("└")
    assert "anew, but for known partitions" in table and "1 run of up to 8 rows: local" in table
    assert re.search(r"2 GiB, had [\d.]+ .iB", table) and re.search(r"\d KiB|\d B ", table) and "5 of 5 parts" in table
    total, skipped = lines.strip().splitlines()[-2:]
    assert total.startswith("~") and total.endswith("hours, 0.00 dollars; not known: toy_scale")
    assert skipped == "skipped with these parameters: toy_bare"


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (["chnk"], {}, "'chnk' is neither a step nor one DAG; steps: .*chunk_passages.*; DAGs: .*corpus_refresh"),
        (["chunk_passages", "corpus_refresh"], {}, "'corpus_refresh' is neither a step nor one DAG"),
        (
            ["chunk_passages"],
            {"sets": ["nothing=1"]},
            "--set nothing: chunk_passages have no such name; they have: .*m",
        ),
        (["chunk_passages"], {"given": ["texts=a"]}, "--input texts: .* they have: documents, held_out"),
        (["chunk_passages"], {"dag": True}, "'chunk_passages' is no DAG; .*DAGs: adapt_to_corpus"),
        (["adapt_to_corpus"], {"dag": True, "given": ["lists=a"]}, "a run of adapt_to_corpus finds its inputs itself"),
        (["corpus_refresh"], {"given": ["texts=a"]}, "leave out --input, or name its steps"),
        (["sketch_documents"], {}, "texts@latest is not in the store"),
        (["embed_passages"], {"given": ["passages=../x"]}, "is not DATASET"),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_can(store, names, options, said):
    with pytest.raises(InputError, match=said):
        plan_command(names, **options)


def test_a_step_that_cannot_be_planned_is_told_to_be_a_dag_too(store, capsys):
    with pytest.raises(InputError, match="--set source"):
        plan_command(["adapt_to_corpus"], sets=["source=https://example.org"])
    assert "the DAG of that name: foundry plan adapt_to_corpus --dag" in capsys.readouterr().out


def test_without_airflow_a_dag_is_planned_by_its_steps(store, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "airflow", None)
    with pytest.raises(InputError, match=r"-e '\.\[airflow\]'.* foundry plan STEP STEP"):
        plan_command(["synthesize_pairs"])
    put(store, PASSAGES, [{"passage_id": "p", "text": "Boil the water.", "split": "train"}])
    plan_command(["embed_passages", "cluster_passages"], sets=["model=all-minilm-l6-v2"])
    assert "after embed_passages" in capsys.readouterr().out


def test_what_a_step_does_not_read_with_its_parameters_is_not_waited_for(store):
    put(store, PASSAGES, [{"passage_id": "p", "text": "Boil the water."}])
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    chain.add(PlannedStep(toy_list, {"rows": {"a": 1}}, {}, "mtp"))
    waits, reads = (
        chain.add(PlannedStep(judge_queries, {"set_name": name}, {}, f"judged/{name}"))
        for name in ("heldout", "questions")
    )
    assert (waits.todo, reads.job.inputs.keys()) == ("after toy_list", {"passages"})


@pytest.fixture
def waiting(store):
    """Plans a step behind one that is yet to make an input of it."""

    def plan_waiting(step: Step, values: dict, coming: str, **inputs: list[str]) -> Line:
        chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
        chain.add(PlannedStep(toy_list, {"rows": {"a": 1}}, {}, "coming"))
        return chain.add(PlannedStep(step, values, inputs | {coming: ["coming"]}, "made"))

    return plan_waiting


def test_inputs_that_do_not_fit_are_refused_also_where_another_is_to_come(store, waiting):
    judged_on = put(store, PASSAGES, [{"passage_id": "p"}])
    queries = put(store, JUDGED_QUERIES, [{"query_id": "q"}], dataset="judged/mine", passages=judged_on)
    newer = put(store, PASSAGES, [{"passage_id": "r"}])
    evaluation = put(store, EVALUATIONS, [], dataset="eval/mine", passages=judged_on)
    refused = f"{queries} was judged on {judged_on}, not {newer}"
    values, given = {"set_name": "mine", "size": "22m"}, {"queries": [str(queries)], "passages": [str(newer)]}
    with pytest.raises(InputError, match=refused):
        waiting(evaluate_retriever, values, "models", **given)
    fit = given | {"passages": [str(judged_on)]}
    assert waiting(evaluate_retriever, values, "models", **fit).todo == "after toy_list"
    pool = given | {"evaluation": [str(evaluation)]}
    with pytest.raises(InputError, match=refused):
        waiting(pool_passages, {"set_name": "mine"}, "evaluation", **pool)
    with pytest.raises(InputError, match=f"{evaluation} is of {judged_on}, not {newer}"):
        waiting(pool_passages, {"set_name": "mine"}, "queries", **pool)


@pytest.mark.parametrize(
    ("step", "values"),
    [
        (evaluate_retriever, {"set_name": "mine", "size": "22m"}),
        (judge_instructions, {"set_name": "mine"}),
        (pool_passages, {"set_name": "mine"}),
        (sample_queries, {"set_name": "mine", "part": "dev"}),
        (sample_queries, {"set_name": "mine", "part": "test"}),
        (mine_negatives, {}),
        (decontaminate_pairs, {}),
    ],
)
def test_with_what_is_to_come_nothing_is_compared(store, waiting, step, values):
    schemas = {name: read.schema for name, read in step.reads.items()}
    there = {name: [str(put(store, rows, [], dataset=f"any/{name}"))] if rows else [] for name, rows in schemas.items()}
    assert {waiting(step, values, name, **there).todo for name in there} == {"after toy_list"}


@pytest.mark.parametrize(
    ("step", "coming"),
    [
        (pretrain, "pairs"),
        (finetune, "triplets"),
        (distill, "triplets"),
        (follow_instructions, "tuples"),
        (adapt_to_corpus, "queries"),
    ],
)
def test_judged_sets_that_do_not_fit_are_refused_also_where_the_rows_of_a_training_are_to_come(
    store, waiting, step, coming
):
    judged_on = put(store, PASSAGES, [{"passage_id": "p"}], dataset="corpus/mine")
    queries = put(store, JUDGED_QUERIES, [{"query_id": "q"}], dataset="judged/mine", passages=judged_on)
    newer = put(store, PASSAGES, [{"passage_id": "r"}], dataset="corpus/mine")
    schemas = {name: read.schema for name, read in step.reads.items() if read.schema and name not in judged_dev.READS}
    own = {name: [str(put(store, schema, [], dataset=f"any/{name}"))] for name, schema in schemas.items()}
    own["init"] = ["coming"]
    refused = f"{queries} was judged on {judged_on}, not {newer}"
    guided = {"sampler": "inf_dds", "targets": ["mine"]}
    for values, name in (({"choose_on": ["mine"]}, "judged_passages"), (guided, "target_passages")):
        with pytest.raises(InputError, match=f"{refused}: give --input {name}={judged_on}"):
            waiting(step, values, coming, **own)
        fit = waiting(step, values, coming, **own, **{name: [str(judged_on)]})
        late = waiting(step, values, name, **own)
        assert {fit.todo, late.todo} == {"after toy_list"}
    with pytest.raises(InputError, match="2 target_passages for 1 targets: name one corpus for each set"):
        waiting(step, guided, coming, **own, target_passages=[str(judged_on), str(newer)])
