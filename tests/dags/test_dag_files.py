"""Every DAG file imports, is small and light, and keeps the project's rules."""

import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException
from foundry_airflow.operators import SKIPS
from foundry_airflow.steps import step

from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.runs import corpus_runs, training_runs
from pipeline_tasks.demo.writer import Writer
from pipeline_tasks.models.sizes import SIZES

DAG_IDS = sorted(path.stem for path in (Path(__file__).parents[2] / "dags").glob("*.py"))
HEAVY = {"torch", "transformers", "faiss", "duckdb", "onnxruntime", "fitz", "pymupdf", "openai", "datasketch", "bm25s"}
PARSE = """
import json, os, runpy, sys, time
from airflow.sdk import DAG
for path in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0, path
        continue
    started = time.process_time()
    runpy.run_path(path)
    print(json.dumps([path, [time.process_time() - started, [m for m in sys.modules if "." not in m]]]), flush=True)
    os._exit(0)
"""


def files(root):
    return sorted((root / "dags").glob("*.py"))


def test_all_dags_import_under_their_own_ids(bag, root):
    assert bag.import_errors == {}
    assert sorted(bag.dags) == DAG_IDS and len(DAG_IDS) == 12, "one file a DAG, of the same name"
    assert max(len(path.read_text().splitlines()) for path in files(root)) <= 80


@pytest.fixture(scope="module")
def parsed(root):
    """Seconds and modules that parsing each file took, in a process of its own that knows Airflow and no more."""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(root), str(root / 'plugins')]!r}\n{PARSE}"]
    said = subprocess.run([*command, *map(str, files(root))], capture_output=True, text=True, check=True).stdout
    return dict(json.loads(line) for line in said.splitlines() if line.startswith('["/'))


@pytest.mark.parametrize("dag_id", DAG_IDS)
def test_parsing_is_quick_and_light(root, parsed, dag_id):
    seconds, modules = parsed[str(root / "dags" / f"{dag_id}.py")]
    assert HEAVY.isdisjoint(modules)
    assert seconds < 2, "processor seconds, beside the import of Airflow itself"


def test_dags_are_documented_and_tagged(bag):
    for dag in bag.dags.values():
        assert "foundry" in dag.tags
        assert len(dag.tags) == 2
        assert dag.doc_md
        assert dag.description


def test_no_task_repeats_the_form_of_its_dag(bag):
    assert all(dag.params for dag in bag.dags.values())
    assert not [task for dag in bag.dags.values() for task in dag.tasks if task.params]


def test_whatever_a_run_begins_with_refuses_what_is_no_field(bag):
    for dag in bag.dags.values():
        for task in dag.roots:
            given = {"dag": dag, "dag_run": SimpleNamespace(conf=None, partition_key=None)}
            task._pre_execute_hook(given)
            given["dag_run"].conf = {name: None for name in dag.params} | {"sample_rte": 0.01}
            with pytest.raises(AirflowFailException, match="there is no field 'sample_rte'; the fields are: "):
                task._pre_execute_hook(given)


def test_runs_that_write_the_same_datasets_wait_for_each_other(bag):
    side_by_side = {dag.dag_id for dag in bag.dags.values() if dag.max_active_runs > 1}
    assert side_by_side == {"build_level", "train_retriever", "distill_retriever"}


def test_every_form_field_is_typed_and_explained(bag):
    for dag in bag.dags.values():
        for name in dag.params:
            schema = dag.params.get_param(name).schema
            assert schema.get("type"), f"{dag.dag_id}.{name}"
            assert schema.get("description") or dag.params.get_param(name).description, f"{dag.dag_id}.{name}"
        dag.params.validate()


def test_a_field_for_a_list_has_something_to_choose_or_takes_free_lines(bag):
    for dag in bag.dags.values():
        for name in dag.params:
            schema = dag.params.get_param(name).schema
            if "array" in schema["type"]:
                lines = "examples" not in schema and schema["items"]["type"] == "string"
                several = len(schema.get("examples", ())) > 1
                assert several or lines, f"{dag.dag_id}.{name}: only what is in a list can be chosen from it"


def test_forms_have_the_promised_fields(bag):
    size = bag.dags["train_retriever"].params.get_param("size")
    assert size.schema["enum"] == list(SIZES)
    assert size.value == "33m"
    train = bag.dags["train_retriever"].params
    own = {"temperature", "weight_decay", "warmup_ratio", "evals_per_epoch", "graph_tokens", "learning_rate"}
    assert {f"{stage}_{name}" for stage in ("pretrain", "finetune") for name in own} | {"precision", "device"} <= set(
        train
    )
    assert train.get_param("precision").schema["enum"] == [None, "fp32", "bf16"]
    assert train.get_param("finetune_warmup_ratio").schema["exclusiveMaximum"] == 1
    alphas = bag.dags["build_triplets"].params.get_param("alphas")
    assert {"0.65", "0.75", "0.85", "0.9", "0.95"} < set(alphas.schema["examples"])
    assert alphas.value == ["0.65", "0.75", "0.85"]
    assert bag.dags["corpus_refresh"].params.get_param("source").schema["type"] == ["null", "string"]
    for name in ("list_urls", "crawl"):
        assert bag.dags["corpus_refresh"].get_task(name).values["max_withdrawn"]._name == "max_withdrawn"
    assert bag.dags["synthesize_pairs"].params.get_param("sample_rate").schema["maximum"] == 1


@pytest.mark.parametrize(
    ("size", "chosen", "trained"),
    [
        ("33m", None, ["0.65", "0.75", "0.85"]),
        ("22m", None, ["0.95"]),
        ("7.6b", None, ["0.95"]),
        ("33m", ["0.9"], ["0.9"]),
        ("7.6b", ["0.9", "0.7"], ["0.9", "0.7"]),
    ],
)
def test_a_training_has_the_levels_of_its_size_or_those_that_were_chosen(bag, size, chosen, trained):
    dag = bag.dags["train_retriever"]
    iterations = [dag.get_task(f"iteration_{n}.finetune") for n in (1, 2, 3)]
    rendered = [
        dag.get_template_env().from_string(task.values["alpha"]).render(params={"size": size, "alphas": chosen})
        for task in iterations
    ]
    assert [alpha for alpha in rendered if alpha not in SKIPS] == trained


def test_no_form_says_whom_a_crawl_may_ask(bag):
    fields = {name for dag in bag.dags.values() for name in dag.params}
    passed = {name for dag in bag.dags.values() for task in dag.tasks for name in getattr(task, "values", ())}
    assert "allow_hosts" not in fields | passed


def test_every_asset_has_exactly_one_producer(bag):
    outlets = [o for dag in bag.dags.values() for task in dag.tasks for o in task.outlets]
    names = Counter(outlet.name for outlet in outlets)
    assert set(names.values()) == {1}
    assert all(isinstance(o, Asset | AssetAlias) for o in outlets)
    assert {"urls", "documents", "passages", "needs", "mtp/dm", "mtp/combined", "mtp", "labelled"} <= set(names)
    assert {"mtt/<alpha>", "model/<size>/pretrain", "model/<size>/finetune", "model/<size>/distill"} <= set(names)
    assert "eval/<set_name>" in names


def test_one_level_is_a_partition_and_no_other_dag_takes_a_key(bag):
    from airflow.serialization.serialized_objects import DagSerialization

    one, many = (
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(bag.dags[name]))
        for name in ("build_level", "build_triplets")
    )
    one.validate_partition_key("0.85")
    with pytest.raises(ValueError, match="not a partitioned Dag"):
        many.validate_partition_key("0.85")
    (outlet,) = bag.dags["build_level"].get_task("emit").outlets
    assert outlet.name == "mtt"


def test_a_dag_that_costs_and_starts_by_itself_is_created_paused_and_one_level_is_there_to_be_asked_for(bag):
    """A request by REST for a paused DAG is queued without end; a DAG that assets start is somebody's decision."""
    assert [name for name, dag in bag.dags.items() if dag.is_paused_upon_creation is False] == ["build_level"]


def _assets(condition):
    return [condition] if isinstance(condition, Asset) else [a for c in condition.objects for a in _assets(c)]


def test_what_starts_a_dag_is_produced_by_another(bag):
    produced = {o.name: dag.dag_id for dag in bag.dags.values() for task in dag.tasks for o in task.outlets}
    starts = {
        "synthesize_pairs": {"passages": "corpus_refresh"},
        "build_triplets": {"mtp": "synthesize_pairs"},
        "evaluate_retriever": {f"model/{size}/finetune": "train_retriever" for size in ("33m", "7.6b")},
    }
    for dag_id, wanted in starts.items():
        assets = {a.name for a in _assets(bag.dags[dag_id].timetable.asset_condition)}
        for name, producer in wanted.items():
            assert name in assets
            size = name.split("/")[1] if "/" in name else ""
            assert produced[name.replace(f"/{size}/", "/<size>/") if size else name] == producer


BY_HAND = {"read_passages", "pool_passages", "sample_queries"}
BY_HAND |= {"check_tuples_by_margin", "read_classes", "read_triplets", "decontaminate_triplets", "average_models"}
BY_HAND |= {"order_dimensions"}
"""What is run from the command line alone: files of others, what is made of them, and what is made of chosen models."""


def test_tasks_are_named_after_their_steps_and_use_their_pools(bag):
    from pipeline_tasks.core.registry import get_step, step_names

    used = set()
    for dag in bag.dags.values():
        for task in dag.tasks:
            name = task.task_id.split(".")[-1]
            if name in step_names():
                used.add(name)
                assert task.pool == (get_step(name).resources.pool or "default_pool")
                assert task.trigger_rule == "none_failed"
    assert used == set(step_names()) - BY_HAND, "every step is in a DAG"


GATED = ("pairs", "tasks", "event_queries")
CHOSEN = {
    *(("combine_pairs", name) for name in ("gd", "own")),
    *((f"decontaminate_{pairs}", name) for pairs in GATED for name in ("queries", "passages")),
    *((f"decontaminate_{pairs}", "held_out") for pairs in ("tasks", "event_queries")),
    *(("adapt_backbone", "general"), ("unify", "builds"), ("read_pairs", "passages")),
}
"""What a task takes as it is when it begins: pairs that no DAG makes, and datasets that a form names."""


def test_a_task_reads_versions_that_its_run_was_given_and_never_latest(bag):
    from pipeline_tasks.core.registry import get_step, step_names

    unsaid = set()
    for dag in bag.dags.values():
        for task in dag.tasks:
            arguments = task.partial_kwargs if task.is_mapped else vars(task)
            if arguments.get("step") in step_names() and "inputs" in arguments:
                step, inputs = get_step(arguments["step"]), arguments["inputs"]
                unsaid |= {(step.name, name) for name in step.reads.keys() - inputs.keys()}
    assert unsaid == CHOSEN


def test_tasks_keep_to_what_their_steps_may_take(bag):
    """A step that goes on from its checkpoints has no time limit in Airflow, which would count it out."""
    from pipeline_tasks.core.registry import get_step, step_names

    seen = set()
    for dag in bag.dags.values():
        for task in dag.tasks:
            if task.task_id.split(".")[-1] in step_names():
                needs = get_step(task.task_id.split(".")[-1]).resources
                limit = None if needs.resumes else timedelta(minutes=needs.timeout_minutes)
                assert (task.retries, task.execution_timeout) == (needs.retries, limit), task.task_id
                seen.add(needs.resumes)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("backend", "slots"), [("kubernetes", [2, 3, 1, 1]), ("docker", [1, 1, 1, 1]), ("process", [1, 1, 1, 1])]
)
def test_a_step_takes_a_slot_for_each_card_of_a_cluster(store_folder, tmp_path, monkeypatch, backend, slots):
    gpus = {"distill": 2, "relabel": 0, "write_pairs": 4}
    (tmp_path / "resources.toml").write_text("".join(f"[{name}]\ngpus = {n}\n" for name, n in gpus.items()))
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "resources.toml"))
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__FOUNDRY__GPUS", "3")
    settings.cache_clear()
    with DAG("cards", schedule=None):
        made = [step(name).operator for name in ("distill", "evaluate_retriever", "relabel", "write_pairs")]
    assert [task.pool_slots for task in made] == slots


def test_pools_that_steps_name_are_in_the_pools_file(root):
    from pipeline_tasks.core.registry import get_step, step_names

    pools = json.loads((root / "plugins" / "foundry_airflow" / "pools.json").read_text())
    assert {get_step(name).resources.pool for name in step_names()} - {""} == set(pools)
    assert all({"slots", "description", "include_deferred"} == set(pool) for pool in pools.values())


def test_dags_survive_serialisation(bag):
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in bag.dags.values():
        written = DagSerialization.serialize_dag(dag)
        assert set(DagSerialization.deserialize_dag(written).task_dict) == set(dag.task_dict)
        assert " at 0x" not in str(written), f"{dag.dag_id} would be another version to Airflow in each process"


@pytest.mark.parametrize("size", ["22m", "33m"])
def test_the_demo_asks_for_fields_that_the_forms_have(bag, size):
    for dag_id, conf in (corpus_runs(Writer("a model", {"concurrency": 8})) | training_runs(size)).items():
        assert conf.keys() <= bag.dags[dag_id].params.keys(), dag_id
