"""What a run of a DAG would do, told from its file alone."""

import json
import runpy
from pathlib import Path

import pytest
from airflow.sdk import DAG, BaseOperator
from foundry_airflow.outline import outline, read_dag

from pipeline_tasks import datasets as d
from pipeline_tasks.cli.costs import CostSources
from pipeline_tasks.cli.plan_chain import Chain, PlannedStep
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, point
from pipeline_tasks.retrieval.reference_models import default_best_models
from tests.stores import go, put

TOYS = Path(__file__).parent / "toy_dags"


def steps(told: dict) -> list[tuple[str, dict]]:
    return [(one["step"], one["inputs"]) for one in told["steps"]]


@pytest.fixture
def store(store_folder) -> LocalStore:
    return LocalStore(store_folder)


@pytest.fixture
def chain(store) -> LocalStore:
    """Versions from passages to labels, each made from the one before."""
    passages = put(store, d.PASSAGES, [{"passage_id": "p", "text": "Boil the water.", "split": "train"}])
    needs = put(store, d.NEEDS, [{"need_id": "n"}], passages=passages)
    written = put(store, d.PAIRS, [{"query_id": "q"}], dataset="mtp/dm", needs=needs)
    combined = put(store, d.PAIRS, [{"query_id": "q"}], dataset="mtp/combined", dm=written)
    pairs = put(
        store,
        d.PAIRS,
        [{"query_id": "q", "query": "water?", "positive": "Boil it.", "split": "train"}],
        dataset="mtp",
        pairs=combined,
    )
    best = default_best_models()[0]
    ranked = put(store, d.RANKINGS, [{"query_id": "q"}], dataset=f"rankings/{best}", pairs=pairs)
    labelled = put(store, d.LABELLED, [{"query_id": "q"}], pairs=pairs, passages=passages, rankings=ranked)
    altered(store, labelled, params={"judges": {"qa": [best]}})
    put(store, d.SCORED_TRIPLETS, [{"query_id": "q", "split": "train"}], dataset="mtt/0.95-kd", passages=passages)
    altered(store, put(store, d.PASSAGES, [], dataset="model/33m/finetune"), rows_schema=FILES, key="name")
    return store


def altered(store: LocalStore, ref: Ref, **update: object) -> None:
    """A version that is like ``ref`` but for ``update``, and the latest."""
    changed = load_manifest(store, ref).model_copy(update=update | {"id": "0" * 16})
    commit(store, changed)
    point(store, changed.ref)


@pytest.mark.usefixtures("toys")
def test_a_step_reads_what_those_before_it_would_write_and_a_condition_skips(store):
    told = outline(read_dag(TOYS, "toy"), {"parts": "3", "refuse": "7"})
    assert steps(told) == [("count", {}), ("square", {"numbers": ["numbers@planned.0"]})]
    assert [one["values"] for one in told["steps"]] == [{"parts": 3}, {"refuse": 7}]
    assert told["skipped"] == ["total"]
    told = outline(read_dag(TOYS, "toy"), {"extra": "yes"})
    assert steps(told)[2:] == [("total", {"squares": ["squares@planned.1"]})]
    assert (told["steps"][2]["name"], told["skipped"]) == ("total/5@planned.2", [])


@pytest.mark.usefixtures("toys")
def test_what_a_run_reads_first_is_looked_up_and_a_mapped_step_is_there_for_each_value(store):
    dag = runpy.run_path(str(TOYS / "toy.py"))["totals"]
    with pytest.raises(InputError, match="squares@latest is not in the store"):
        outline(dag, {})
    go(store, get_step("count"))
    squares = str(go(store, get_step("square")).ref)
    told = outline(dag, {"plus": ["1", "7", "1"]})
    assert [(one["step"], one["values"], one["name"]) for one in told["steps"]] == [
        ("total", {"plus": "1"}, "total/1@planned.0"),
        ("total", {"plus": "7"}, "total/7@planned.1"),
    ]
    assert [given for _, given in steps(told)] == [{"squares": [squares]}] * 2
    assert told["skipped"] == ["square"]


@pytest.mark.parametrize(
    ("conf", "said"),
    [({"part": 1}, "no field 'part'; the fields are: parts, extra, refuse"), ({"parts": "many"}, "parts='many'")],
)
@pytest.mark.usefixtures("toys")
def test_a_field_that_is_not_there_or_has_another_type_is_named(store, conf, said):
    with pytest.raises(InputError, match=said):
        outline(read_dag(TOYS, "toy"), conf)


def test_a_task_whose_operator_has_no_outline_is_refused():
    with DAG("own", schedule=None) as dag:
        BaseOperator(task_id="mine")
    with pytest.raises(InputError, match="own: the task mine is a BaseOperator, .* a method `outlined`"):
        outline(dag, {})


NEEDS_A_NAME = {"evaluate_retriever": {"size": "33m"}}


def test_of_every_dag_each_step_is_told_or_skipped_and_can_be_planned(chain, root):
    known = CostSources(chain, Rates.of(chain), "", 2.0)
    for path in sorted((root / "dags").glob("*.py")):
        dag = read_dag(root / "dags", path.stem)
        told = outline(dag, NEEDS_A_NAME.get(path.stem, {}))
        named = {getattr(task, "partial_kwargs", vars(task)).get("step") for task in dag.tasks} - {None}
        assert {step for step, _ in steps(told)} | set(told["skipped"]) == named, path.stem
        planned = Chain(known)
        for one in json.loads(json.dumps(told))["steps"]:
            planned.add(PlannedStep(get_step(one["step"]), one["values"], one["inputs"], one["name"]))


def test_a_model_is_compared_with_what_it_began_as_unless_the_form_names_another(chain, root):
    made = load_manifest(chain, Ref.parse("model/33m/finetune"))
    began = {"params": {"backbone": {"name": "all-mpnet-base-v2"}}, "id": "1" * 16}
    commit(chain, made.model_copy(update=began))
    point(chain, Ref.parse(f"model/33m/finetune@{'1' * 16}"))
    for conf, start in (({}, "all-mpnet-base-v2"), ({"backbone": "gte-base", "systems": ["bm25"]}, "gte-base")):
        told = outline(read_dag(root / "dags", "evaluate_retriever"), {"size": "33m"} | conf)["steps"][-1]["values"]
        assert (told["size"], told["backbone"], told.get("systems")) == ("33m", start, conf.get("systems")), conf


def test_the_passages_of_triplets_are_those_that_pairs_of_your_own_name_or_the_latest(store, root):
    dag = read_dag(root / "dags", "build_triplets")
    named, latest = (str(put(store, d.PASSAGES, [{"passage_id": name}])) for name in "ab")
    for given, expected in (({"passages": named}, named), ({}, latest)):
        row = {"query_id": expected}
        own = put(store, d.PAIRS, [row], dataset="mtp/own/faq", **given)
        combined = put(store, d.PAIRS, [row], dataset="mtp/combined", own=own)
        put(store, d.PAIRS, [row], dataset="mtp", pairs=combined)
        told = outline(dag, {})["steps"]
        assert {ref for one in told for ref in one["inputs"].get("passages", []) if "planned" not in ref} == {expected}


def test_a_source_is_refreshed_first_and_its_passages_are_read(chain, root):
    kept = str(load_manifest(chain, Ref.parse("passages")).ref)
    told = outline(read_dag(root / "dags", "adapt_to_corpus"), {"source": "/data/pdfs"})
    made = {one["step"]: one for one in told["steps"]}
    assert told["steps"][0]["step"] == "list_urls" and made["list_urls"]["values"]["source"] == "/data/pdfs"
    planned = next(one["name"] for one in told["steps"] if one["name"].startswith("passages@"))
    assert made["extract_queries"]["inputs"]["passages"] == [planned] != [kept]
    asked = Chain(CostSources(chain, Rates.of(chain), "", 2.0))
    for one in told["steps"]:
        asked.add(PlannedStep(get_step(one["step"]), one["values"], one["inputs"], one["name"]))
    alone = {one["step"]: one for one in outline(read_dag(root / "dags", "adapt_to_corpus"), {})["steps"]}
    assert "list_urls" not in alone and alone["extract_queries"]["inputs"]["passages"] == [kept]


def test_levels_and_models_are_wired_as_a_run_wires_them(chain, root):
    told = outline(read_dag(root / "dags", "build_triplets"), {"alphas": ["0.6", "0.8"], "fusion": True})
    names = {one["name"]: one["step"] for one in told["steps"]}
    mined = [one for one in told["steps"] if one["step"] == "mine_negatives"]
    assert [one["name"].partition("@")[0] for one in mined] == ["mtt/0.6", "mtt/0.8"]
    assert {names[text] for text in mined[0]["inputs"]["rankings"]} == {"rank_passages"}
    assert [names[text] for text in mined[0]["inputs"]["labelled"]] == ["mutual_agreement"]
    assert told["skipped"] == ["score_triplets"] and {"rank_bm25", "fuse_rankings"} <= set(names.values())
    told = outline(read_dag(root / "dags", "train_retriever"), {"size": "22m", "alphas": ["0.5"]})
    trained = [one for one in told["steps"] if one["step"] == "finetune"]
    assert [one["values"]["alpha"] for one in trained] == ["0.5"]
    assert [one["step"] for one in told["steps"]][-1] == "evaluate_retriever"


def test_without_pre_training_the_first_iteration_starts_from_the_backbone_and_the_second_from_that(chain, root):
    dag, off = read_dag(root / "dags", "train_retriever"), {"alphas": ["0.5", "0.6"], "finetune_pretrained": False}
    told = outline(dag, off | {"size": "22m"})
    first, second = (one for one in told["steps"] if one["step"] == "finetune")
    assert "pretrain" in told["skipped"]
    assert (first["values"]["pretrained"], first["inputs"]["init"]) == (False, [])
    assert (second["values"]["pretrained"], second["inputs"]["init"]) == ("true", [first["name"]])
    asked = Chain(CostSources(chain, Rates.of(chain), "", 2.0))
    for one in told["steps"]:
        asked.add(PlannedStep(get_step(one["step"]), one["values"], one["inputs"], one["name"]))
    with pytest.raises(InputError, match="judge pairs"):
        outline(dag, off | {"size": "33m"})


@pytest.mark.parametrize("built", [True, False], ids=["built before", "never built"])
def test_further_builds_of_a_run_s_own_levels_are_those_that_it_mines(chain, root, built):
    other = str(put(chain, d.TRIPLETS, [{"query_id": "q"}], dataset="mtt/0.9"))
    if built:
        put(chain, d.TRIPLETS, [{"query_id": "gone"}], dataset="mtt/0.5")
    conf = {"size": "22m", "alphas": ["0.5", "0.6"], "finetune_triplets_from": ["mtt/0.9", "mtt/0.5"]}
    told = outline(read_dag(root / "dags", "train_retriever"), conf)["steps"]
    mined = {one["name"].partition("@")[0]: one["name"] for one in told if one["step"] == "mine_negatives"}
    read = [one["inputs"] for one in told if one["step"] == "finetune"]
    assert [one["triplets"] for one in read] == [[mined["mtt/0.5"]], [mined["mtt/0.6"]]]
    assert [one["further"] for one in read] == [[other, mined["mtt/0.5"]]] * 2
