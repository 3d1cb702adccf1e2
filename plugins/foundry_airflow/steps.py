"""Tasks of DAG files: :func:`step` makes one of a step; :mod:`foundry_airflow.forms` has fields of its parameters."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetAlias, Context, Param, TaskGroup, TriggerRule, XComArg
from airflow.sdk.configuration import conf
from airflow.sdk.definitions.param import ParamsDict

from foundry_airflow.ahead import AHEAD, AheadOperator
from foundry_airflow.alerts import task_failed
from foundry_airflow.containers import gpus_of, option
from foundry_airflow.forms import form, form_value, of_run, only_fields
from foundry_airflow.groups import GroupsOperator
from foundry_airflow.inputs import EachOperator, NamedOperator, PublishOperator, StagesOperator
from foundry_airflow.operators import StepOperator, airflow_errors
from foundry_airflow.paths import Where, best_rankings
from foundry_airflow.tries import retry_delay_s
from foundry_airflow.upkeep import FoldOperator, OutcomeOperator
from pipeline_tasks.core.parameters import default_of
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.step import Resources
from pipeline_tasks.evaluation.judge_queries import OWN_SETS

OF_AIRFLOW = {"openlineage"}
"""What a task of Airflow's that starts a run may add to what the run is given."""


def as_asked(context: Context) -> None:
    """Fail a task whose run was given what is no field of its DAG: it would run, and pay, as if nothing was asked."""
    with airflow_errors():
        only_fields(context["dag"], (context["dag_run"].conf or {}).keys() - OF_AIRFLOW)


DEFAULT_ARGS = {
    "retries": Resources().retries,
    "retry_delay": timedelta(seconds=retry_delay_s()),
    "retry_exponential_backoff": True,
    "on_failure_callback": task_failed,
    "pre_execute": as_asked,
    "weight_rule": "upstream",
}
"""Only what may help is tried again: see :func:`foundry_airflow.backends.checked`. Where tasks wait for a slot, that
with the most tasks before it has it first, so that what has begun is finished."""
AT_ONCE = 8
"""Runs at once of a DAG whose runs write datasets of their own, a size's or a level's. Where all runs write the same
datasets there is one at a time, so that what was built last is what ``latest`` names."""
MAP_LABEL = "{{ task.map_label }}"
LABELLED_TEXTS: dict[str, Where] = {"pairs": "labelled > pairs", "passages": "labelled > passages"}
"""Paths to the texts behind the latest ``labelled``."""


def step(
    name: str,
    *,
    inputs: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    each: dict[str, Any] | None = None,
    only_if: Any = True,
    otherwise: str = "",
    emits: bool = True,
    max_groups: int | None = None,
    ahead: Any = None,
) -> XComArg:
    """The task ``name`` that makes the step's version; its output is ``dataset@version``.

    A map step gets a group ``<name>_groups``: ``plan`` lists the groups of parts with work and ``run`` is mapped over
    them; then ``name`` commits. Where little or nothing is missing there are no groups.

    Args:
        name: the step.
        inputs: input name -> output of another task, ``dataset[@version]``, or a list of these; others come from the
            latest version of the step's default dataset.
        params: parameters; None leaves the step's own default.
        each: one parameter and its list of values: one mapped task for each (reduce steps).
        only_if: template; the task is skipped where it comes out empty.
        otherwise: why it was skipped, and what to do about it.
        emits: emit the asset event. An asset has one producer: off for all but one task that writes the dataset.
        max_groups: groups of parts at most; ``[foundry] max_groups`` of the configuration where not given.
        ahead: template or parameter; where it comes out true, a task ``<name>_ahead`` first buys by the batch API what
            the step will ask an LLM.
    """
    found = get_step(name)
    work: dict[str, Any] = {"step": name, "inputs": of_run(inputs or {}), "values": of_run(params or {})}
    work |= {"only_if": of_run(only_if), "otherwise": otherwise}
    work["trigger_rule"] = TriggerRule.NONE_FAILED
    limits = _limits(resources_of(found))
    outlets = [_asset(found.dataset, params or {})] if emits else []
    doc = (found.body.__doc__ or "").strip()
    if each:
        ((parameter, items),) = each.items()
        values = EachOperator(task_id=f"{name}_each", name=parameter, items=items)
        mapped = StepOperator.partial(
            task_id=name, map_index_template=MAP_LABEL, outlets=outlets, doc_md=doc, **work, **limits
        )
        return mapped.expand(each=values.output).output
    commit = StepOperator(task_id=name, outlets=outlets, doc_md=doc, **work, **limits)
    asleep = {name: value for name, value in limits.items() if name != "pool"}  # for a day, and asks nobody meanwhile
    bought = [] if ahead is None else [AheadOperator(task_id=f"{name}_{AHEAD}", wanted=ahead, **work, **asleep)]
    bought >> commit
    if found.kind == "map":
        limit = max_groups or conf.getint("foundry", "max_groups", fallback=8)
        with TaskGroup(f"{name}_groups"):
            groups = GroupsOperator(task_id="plan", max_groups=limit, **work)
            bought >> groups
            mapped = StepOperator.partial(task_id="run", map_index_template=MAP_LABEL, **work, **limits)
            mapped.expand(group=groups.output) >> commit
    return commit.output


def _limits(needs: Resources) -> dict[str, Any]:
    """What Airflow holds a task to. The back-end ends a try; a task that goes on from its last one may last longer.

    A slot of the pool ``gpu`` is a card of the cluster; elsewhere all steps get the same cards, and one slot is a step.
    """
    found: dict[str, Any] = {"retries": needs.retries}
    if needs.timeout_minutes and not needs.resumes:
        found["execution_timeout"] = timedelta(minutes=needs.timeout_minutes)
    if needs.pool:
        found["pool"] = needs.pool
    if needs.pool == "gpu" and option("backend") == "kubernetes":
        found["pool_slots"] = max(1, gpus_of(needs))
    return found


def _asset(dataset: str, params: dict[str, Any]) -> Asset | AssetAlias:
    """The dataset's asset; an alias such as ``mtt/<alpha>`` where its name depends on the run."""
    named = re.findall(r"{(\w+)}", dataset)
    literal = {f: v for f, v in params.items() if isinstance(v, (str, int, float)) and "{{" not in str(v)}
    if all(field in literal for field in named):
        return Asset(dataset.format(**literal))
    return AssetAlias(re.sub(r"{(\w+)}", r"<\1>", dataset))


def default(name: str, parameter: str) -> Any:
    """A step's parameter that nobody gives: what a DAG's shape may depend on."""
    return default_of(get_step(name), parameter)


def mining_inputs() -> dict[str, Where]:
    """What ``mine_negatives`` reads, as paths from the latest ``labelled``; rankings of every intent's best judge.

    DAGs that build levels name the same inputs, so that each finds what another has built.
    """
    return LABELLED_TEXTS | {"labelled": "labelled", "rankings": best_rankings}


def mine_negatives_task(group: str, alpha: str, read: dict[str, Any], params: dict[str, Any]) -> XComArg:
    """The task ``mine_negatives`` of a level, in a group of its own; skipped where the template ``alpha`` is empty."""
    with TaskGroup(group):
        ranked = {name: read[name] for name in mining_inputs()}
        return step("mine_negatives", inputs=ranked, params=params | {"alpha": alpha}, only_if=alpha, emits=False)


def evaluation_inputs() -> dict[str, Where]:
    """What :func:`evaluation_tasks` reads: pairs and passages of the latest ``labelled``, and vectors by its judges.

    BM25, which may be one of them, has none.
    """
    return LABELLED_TEXTS | {"embeddings": "labelled > rankings > embeddings/*"}


def evaluation_fields() -> dict[str, Param]:
    """Fields of a DAG with :func:`evaluation_tasks`."""
    set_name = Param(
        None,
        type=["null", "string"],
        enum=[None, *OWN_SETS],
        section="judge_queries",
        description="queries that models are scored on: held-out ones, or the domain's questions "
        f"(left empty: {default('judge_queries', 'set_name')})",
    )
    return {"set_name": set_name} | form("evaluate_retriever", "systems").params


def evaluation_tasks(
    dag: DAG, read: dict[str, Any], models: Any, params: dict[str, Any], *, emits: bool = False
) -> XComArg:
    """The tasks ``judge_queries`` and ``evaluate_retriever`` on the judged set that a run of ``dag`` chooses.

    Args:
        dag: has the fields :func:`evaluation_fields`, or those of them that ``params`` do not give.
        read: ``pairs``, ``passages`` and ``embeddings``.
        models: versions to score.
        params: of ``evaluate_retriever``.
        emits: see :func:`step`.
    """
    chosen: dict[str, Any] = {"systems": dag.param("systems")} if "systems" in dag.params else {}
    judged_set = {"set_name": form_value("judge_queries", "set_name")}
    asked = {name: read[name] for name in ("pairs", "passages")}
    queries = step("judge_queries", inputs=asked, params=judged_set, emits=False)
    given_to = {"queries": queries, "models": models} | {name: read[name] for name in ("passages", "embeddings")}
    return step("evaluate_retriever", inputs=given_to, params=chosen | judged_set | params, emits=emits)


def group_name(text: str) -> str:
    """``text`` as the name of a task group, where dots have a meaning of their own."""
    return text.replace(".", "_")


def input_from_outputs_task(name: str, reads: str, values: dict[str, Any], versions: Any) -> XComArg:
    """The task ``reads``: those of ``versions``, outputs of tasks, that step ``name`` reads so by its ``values``."""
    return NamedOperator(task_id=reads, step=name, values=of_run(values), reads=reads, versions=of_run(versions)).output


def start_field() -> dict[str, Param]:
    """The field ``backbone`` of a DAG with :func:`stages`: no default of a step's stands in for what a model was."""
    description = (
        "model that the row <size>/untrained is of: a name of `foundry models` or the path of a folder "
        "(left empty: what the model began as)"
    )
    return {"backbone": Param(None, type=["null", "string"], section="evaluate_retriever", description=description)}


def stages(dag: DAG, models: Any) -> tuple[XComArg, dict[str, XComArg]]:
    """The task ``models``: every stage of the models named, else of those whose change started the run.

    And what :func:`evaluation_tasks` compares them with, by the fields ``backbone`` and ``systems`` of ``dag``.
    """
    named = of_run({name: dag.param(name) for name in ("backbone", "systems")})
    operator = StagesOperator(task_id="models", models=models, named=named)
    return operator.output, {name: XComArg(operator, name) for name in ("size", *named)}


def publish(name: str, versions: list[XComArg]) -> XComArg:
    """The task ``publish`` that emits the asset event of the last version that step ``name`` made in this run."""
    return PublishOperator(task_id="publish", versions=versions, outlets=[_asset(get_step(name).dataset, {})]).output


def fold_lineage(*after: XComArg) -> None:
    """The last tasks: ``fold_lineage`` folds the lineage, also where something before it failed, and ``outcome``.

    Airflow takes a run for what its last tasks are: where a step failed ``outcome`` is not reached, and so has failed,
    whatever else was skipped.
    With a teardown it would not need that task, but would count a run that somebody marks as failed as a success. What
    every DAG ends with, it also takes the copy of the DAG's parameters from each task.
    """
    fold = FoldOperator(task_id="fold_lineage", pre_execute=None, trigger_rule=TriggerRule.ALL_DONE)
    outcome = OutcomeOperator(task_id="outcome", trigger_rule=TriggerRule.NONE_FAILED)
    for output in after:
        output >> [fold, outcome]
    # A run reads the DAG's own; Airflow validates every copy whenever it stores the DAG, which is most of that work.
    for task in fold.dag.tasks:
        task.params = ParamsDict()
