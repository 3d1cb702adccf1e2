"""``foundry sweep``: every combination of values, nothing made twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from pipeline_tasks.cli.costs import CostSources
from pipeline_tasks.cli.plan_chain import Chain, PlannedStep, by_name
from pipeline_tasks.cli.run import _source
from pipeline_tasks.cli.sweep import (
    _as_when_built,
    _values,
    best_first,
    check_all_run,
    combinations,
    nested,
    run_chain,
    with_versions,
)
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.pins import living_pins
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import REJECTS
from pipeline_tasks.core.step import From, NoParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.datasets import PAIRS, PASSAGE_DUPLICATES, PASSAGES
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.llm.wanted import QuoteRun
from tests.core.toy_steps import TOTALS, make, rows_of, toy_bare, toy_list, toy_scale
from tests.dags.toys.rows import NUMBERS
from tests.stores import note_run, put

CHAIN = ("sweep", "count", "square", "total", "--over", "parts=2,3", "--over", "plus=[1, 5]", "--by", "sum")
PAIR = {"query_id": "q", "query": "deep?", "intent": "qa", "origin": "faq", "passage_id": "a", "split": "train"}


def test_each_combination_is_made_of_what_its_own_steps_before_made(toys, tmp_path):
    swept = toys(*CHAIN)
    assert swept.returncode == 0, swept.stderr
    rows = [line.split("│")[1:-1] for line in swept.stdout.splitlines() if line.startswith("│")]
    found = {(parts.strip(), plus.strip()): (int(n), ref.strip()) for parts, plus, n, ref in rows}
    assert {setting: n for setting, (n, _) in found.items()} == {
        ("2", "1"): 15, ("2", "5"): 19, ("3", "1"): 56, ("3", "5"): 60
    }  # fmt: skip
    assert [n for n, _ in found.values()] == [60, 56, 19, 15], "the best first"
    assert len({ref for _, ref in found.values()}) == 4
    store = LocalStore(tmp_path / "store")
    sums = {
        setting: Version.open(store, Ref.parse(ref)).table()["number"][0].as_py() for setting, (_, ref) in found.items()
    }
    assert sums == {("2", "1"): 15, ("2", "5"): 19, ("3", "1"): 56, ("3", "5"): 60}
    assert "setting 4 of 4: parts=3, plus=5" in swept.stderr
    before = sorted((tmp_path / "store").rglob("*.parquet"))
    again = toys(*CHAIN)
    assert again.stdout == swept.stdout
    assert sorted((tmp_path / "store").rglob("*.parquet")) == before, "nothing is made again"


def test_the_latest_version_of_what_the_chain_makes_is_the_one_that_it_makes(toys):
    swept = toys(*CHAIN, "--input", "numbers=numbers@latest")
    assert swept.returncode == 0, swept.stderr
    assert swept.stdout == toys(*CHAIN).stdout
    planned = toys("plan", "count", "square", "--set", "parts=5", "--input", "numbers=numbers@latest")
    assert "after count" in planned.stdout, planned.stderr


@step(reads={"refused": From(REJECTS, "scaled/rejects")}, writes=TOTALS, kind="reduce", dataset="refused")
def toy_refused(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """How many were refused."""
    return TOTALS.table([{"total_id": "all", "value": inputs["refused"].table().num_rows}])


def test_rejects_are_those_of_the_step_before(store):
    make(store, toy_list, rows={"good": 1, "bad": 13})
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    waits = [PlannedStep(toy_scale, {}, {}, "scaled"), PlannedStep(toy_refused, {}, {}, "refused")]
    refused = [chain.add(one) for one in waits][1]
    assert (refused.todo, refused.rows.value) == ("after toy_scale", None)
    first = make(store, toy_scale).ref
    make(store, toy_list, rows={"good": 1})
    make(store, toy_scale)
    steps = [
        PlannedStep(toy_scale, {}, {"items": [str(load_manifest(store, first).inputs["items"][0])]}, "scaled"),
        PlannedStep(toy_refused, {}, {"refused": ["scaled/rejects@latest"]}, "refused"),
    ]
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    job = [chain.add(one).job for one in steps][1]
    made = run_chain(store, with_versions(store, steps, {})).ref
    assert job.input_names == load_manifest(store, made).inputs == {"refused": [f"scaled/rejects@{first.version}"]}
    assert rows_of(store, "refused") == [{"total_id": "all", "value": 1}]


def test_what_another_input_read_is_read_as_the_chain_made_it(tmp_path):
    store, found = LocalStore(tmp_path), []
    names = ["near_duplicate_passages", "combine_pairs"]
    for ids in ("ab", "ac", "ab"):
        put(store, PASSAGES, [{"passage_id": one, "split": "train"} for one in ids], dataset="chunks")
        same = [{"passage_id": one, "representative_id": one, "cosine": 1.0} for one in ids]
        put(store, PASSAGE_DUPLICATES, same, dataset="duplicates/passages")
        if not found:
            put(store, PAIRS, [PAIR], dataset="mtp/own/faq", passages=run_chain(store, by_name(names[:1], {}, {})).ref)
        made = run_chain(store, with_versions(store, by_name(names, {"own": ["faq"]}, {}), {})).ref
        chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
        planned = [chain.add(one).job for one in by_name(names, {"own": ["faq"]}, {})]
        found.append(load_manifest(store, made).inputs["passages"])
        assert found[-1] == [str(planned[0].ref)] == planned[1].input_names["passages"]
    assert found[0] == found[2] != found[1]
    put(store, PASSAGES, [{"passage_id": "a", "split": "train"}], dataset="chunks")
    put(store, PASSAGE_DUPLICATES, same[:1], dataset="duplicates/passages")
    chain = Chain(CostSources(store, Rates.of(store), "", 2.0))
    assert [chain.add(one).todo for one in by_name(names, {"own": ["faq"]}, {})][1] == "after near_duplicate_passages"
    put(store, PAIRS, [PAIR], dataset="mtp/dm")
    assert list(chain.add(by_name(names[1:], {}, {})[0]).job.inputs) == ["dm"], "nobody read passages"


def test_no_setting_reads_what_came_after_the_sweep_began(toys, tmp_path):
    store = LocalStore(tmp_path / "store")
    before = put(store, NUMBERS, [{"number_id": "7", "number": 7}])
    swept = toys("sweep", "refine", "count", "--over", "parts=2,3")
    assert swept.returncode == 0, swept.stderr
    assert Version.open(store, Ref.parse("numbers")).manifest.rows == 6, "each setting makes another latest version"
    (refined,) = store.keys("versions/refined")
    assert json.loads(store.read(refined))["inputs"] == {"init": [str(before)]}


def test_what_a_later_step_reads_stays_while_an_earlier_one_runs(toys, tmp_path):
    store, mark = LocalStore(tmp_path / "store"), tmp_path / "mark"
    before = put(store, NUMBERS, [{"number_id": "7", "number": 7}])
    with ThreadPoolExecutor(1) as beside:
        sweep = beside.submit(toys, "sweep", "stumble", "refine", "--over", "how=wait", "--set", f"mark={mark}")
        while not mark.exists() and not sweep.done():
            time.sleep(0.02)
        put(store, NUMBERS, [{"number_id": "8", "number": 8}])
        drop(store, find_garbage(store, keep=0, grace_s=-60))
        mark.with_suffix(".go").touch()
    assert sweep.result().returncode == 0, sweep.result().stderr
    assert load_manifest(store, Ref.parse("refined")).inputs == {"init": [str(before)]}


def test_what_the_first_settings_made_stays_while_the_last_runs(toys, tmp_path):
    store, mark = LocalStore(tmp_path / "store"), tmp_path / "mark"
    with ThreadPoolExecutor(1) as beside:
        sweep = beside.submit(toys, "sweep", "stumble", "--over", "how=once,more,wait", "--set", f"mark={mark}")
        while not (mark.exists() and len(mark.read_text().splitlines()) == 3) and not sweep.done():
            time.sleep(0.02)
        pins = [pin.step for pin in living_pins(store)]
        drop(store, find_garbage(store, keep=0, grace_s=-60))
        mark.with_suffix(".go").touch()
    assert sweep.result().returncode == 0, sweep.result().stderr
    assert len(list(store.keys("versions/stumbles"))) == 3
    assert sorted(pins) == ["stumble", "sweep", "sweep"], "one of what is read, and one of all that is made"


def test_what_an_input_reads_or_leaves_out_by_default_is_found_before_all_settings(store):
    passages = put(store, PASSAGES, [{"passage_id": "a", "split": "train"}])
    own = put(store, PAIRS, [PAIR], dataset="mtp/own/faq", passages=passages)
    there = {}
    first = with_versions(store, by_name(["combine_pairs"], {"own": ["faq"]}, {}), there)
    assert first[0].inputs == {"dm": [], "gd": [], "own": [str(own)], "passages": [str(passages)]}
    put(store, PASSAGES, [{"passage_id": "b", "split": "train"}])
    put(store, PAIRS, [PAIR | {"query_id": "r"}], dataset="mtp/dm")
    assert with_versions(store, by_name(["combine_pairs"], {"own": ["faq"]}, {}), there) == first
    assert load_manifest(store, run_chain(store, first).ref).inputs == {"own": [str(own)], "passages": [str(passages)]}


def test_of_a_loss_the_lowest_is_the_best_and_what_has_none_comes_last():
    made = [Outcome(None, False, Counter(counters)) for counters in ({}, {"last_loss": 2, "sum": 2}, {"last_loss": 1})]
    found = [({"n": n}, outcome) for n, outcome in enumerate(made)]
    assert [chosen["n"] for chosen, _ in best_first(found, "last_loss")] == [2, 1, 0]
    assert [chosen["n"] for chosen, _ in best_first(found, "sum")] == [1, 0, 2]


def test_of_a_version_that_was_dropped_and_made_again_the_new_counters_count(store):
    ref = Ref(dataset="model/22m/corpus", version="0" * 16)
    for reused, value in ((False, 0.9), (False, 0.5), (True, 0.7)):
        counters = {"dev_ndcg_at_10": value} | ({"of_the_dropped": 1} if value == 0.9 else {})
        note_run(store, ref, counters, reused=reused)
    assert _as_when_built(store, Outcome(ref, True)).counters == {"dev_ndcg_at_10": 0.5}


def test_where_nothing_has_the_counter_it_says_so_and_which_there_are(toys):
    told = toys("sweep", "count", "square", "total", "--over", "plus=1,5", "--set", "parts=2").stdout
    assert "none of them counted dev_ndcg_at_10: they are as they were run" in told
    assert "--by may name: parts_" in told and "sum" in told.split("--by may name: ")[1]


def test_all_names_are_looked_at_before_the_first_step_runs(toys, tmp_path):
    told = toys("sweep", "count", "square", "--over", "prts=2,3")
    assert told.returncode != 0 and "prts" in told.stderr and "parts" in told.stderr
    assert not list((tmp_path / "store").glob("versions/*"))


def test_all_inputs_are_looked_at_before_the_first_step_runs(toys, tmp_path):
    put(LocalStore(tmp_path / "store"), NUMBERS, [{"number_id": "3", "number": 3}], dataset="total/1")
    told = toys("sweep", "again", "--over", "plus=1,5")
    assert told.returncode == 2 and "total/5@latest is not in the store" in told.stderr
    assert not (tmp_path / "store" / "versions" / "again").exists()


@pytest.mark.parametrize(("factors", "n_looks"), [((3,), 1), ((3, 3, 3), 1), ((3, 4, 3), 2)])
def test_what_settings_begin_with_is_looked_at_once(store, monkeypatch, factors, n_looks):
    make(store, toy_list, rows={"a": 1, "b": 2, "c": 3}, part_rows=1)
    read_all, asked = store.read_all, []
    monkeypatch.setattr(store, "read_all", lambda keys: read_all([asked.append(key) or key for key in keys]))
    chains = [
        [
            PlannedStep(toy_scale, {"factor": factor}, {}, "scaled"),
            PlannedStep(toy_bare, {"factor": n}, {"unique": ["scaled"]}, "bare"),
        ]
        for n, factor in enumerate(factors, 1)
    ]
    check_all_run(store, chains)
    assert len(asked) == 3 * n_looks
    chains[-1][1] = PlannedStep(toy_bare, {"factor": 0}, {"unique": ["scaled"]}, "bare")
    with pytest.raises(InputError, match="factor"):
        check_all_run(store, chains)


def test_no_prompt_is_built_to_see_that_paid_steps_can_run(store, monkeypatch):
    put(store, PASSAGES, [{"passage_id": "a", "text": "Boil it.", "split": "train"}])
    monkeypatch.delattr(QuoteRun, "of")
    for names in (["write_needs"], ["write_needs", "write_pairs"]):
        check_all_run(store, [by_name(names, {"llm": "any", "sample_rate": rate}, {}) for rate in (0.5, 1)])


def test_what_is_finished_is_listed_also_where_a_later_setting_fails(toys):
    told = toys("sweep", "count", "square", "--set", "parts=2", "--over", "refuse=9,2,8")
    assert told.returncode == 2 and "refuse=2 is among the numbers" in told.stderr
    rows = [line.split("│")[1].strip() for line in told.stdout.splitlines() if line.startswith("│")]
    assert rows == ["9"]


@pytest.mark.parametrize(
    ("value", "tried"),
    [
        ('{"name": "list_net", "alpha": 2}', [{"name": "list_net", "alpha": 2}]),
        ('[{"name": "list_net", "alpha": 2}, "list_mle"]', [{"name": "list_net", "alpha": 2}, "list_mle"]),
        ("list_net,list_mle", ["list_net", "list_mle"]),
    ],
)
def test_an_object_is_one_value_and_a_list_one_for_each(value, tried):
    assert _values(f"objective={value}") == ("objective", tried)


def test_the_last_parameter_changes_first():
    assert list(combinations([("m", ["4", "9"]), ("alpha", ["1", "2"])])) == [
        {"m": "4", "alpha": "1"}, {"m": "4", "alpha": "2"}, {"m": "9", "alpha": "1"}, {"m": "9", "alpha": "2"}
    ]  # fmt: skip


def test_a_part_of_a_parameter_goes_beside_its_other_parts():
    steps = ["sample_rank_lists", "adapt_to_corpus"]
    assert nested({"objective.alpha": "2", "m": "4"}, steps) == {
        "m": "4",
        "objective": {"name": "list_net", "alpha": "2"},
    }
    assert nested({"objective": {"name": "list_mle"}, "objective.scale": "3"}, steps)["objective"] == {
        "name": "list_mle", "scale": "3"
    }  # fmt: skip
    with pytest.raises(InputError, match="epochs.more: epochs is no parameter .* that has parts"):
        nested({"epochs.more": "2"}, steps)


def test_steps_say_which_input_decides_what_another_is():
    assert _source(combine_pairs.reads["passages"]) == "as own read"
    assert _source(combine_pairs.reads["dm"]) == "mtp/dm"
