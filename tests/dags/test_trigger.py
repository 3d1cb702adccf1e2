"""Waiting in the triggerer; many waits at once, and what a user's cancel does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

pytest.importorskip("kubernetes", reason="the extra `kubernetes` is not installed")

from foundry_airflow.alerts import error_line
from foundry_airflow.operators import StepOperator, open_store
from foundry_airflow.trigger import CommandTrigger

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import resolve
from tests.dags.test_kubernetes_backend import cluster  # noqa: F401
from tests.stores import go

pytestmark = pytest.mark.usefixtures("toys")
EVICTED = {"exit_code": 137, "last_line": "", "why": "Evicted: the node was full"}


def deferred(monkeypatch) -> TaskDeferred:
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DEFERRABLE", "True")
    with pytest.raises(TaskDeferred) as caught:
        StepOperator(task_id="count", step="count").execute({"outlet_events": {}})
    return caught.value


async def first(trigger):
    async for event in trigger.run():
        return event.payload


def test_a_task_gives_up_its_slot_and_goes_on_with_what_the_trigger_saw(cluster, monkeypatch):  # noqa: F811
    wait = deferred(monkeypatch)
    path, kwargs = wait.trigger.serialize()
    assert path == "foundry_airflow.trigger.CommandTrigger"
    name = kwargs["name"]
    cluster.log(name, "a line")
    cluster.terminated(name, 0, "Completed", "numbers@1")
    event = asyncio.run(first(CommandTrigger(**kwargs)))
    assert cluster.pods == {}
    operator = StepOperator(task_id="count", step="count", group="0/1")
    assert getattr(operator, wait.method_name)({"outlet_events": {}}, event) == "numbers@1"


def test_a_version_that_was_not_planned_is_announced_to_nobody(cluster, monkeypatch):  # noqa: F811
    """The image is of another release, which knows the step in another version."""
    wait = deferred(monkeypatch)
    cluster.terminated(wait.trigger.name, 0, "Completed", "numbers@0123456789abcdef")
    event = asyncio.run(first(CommandTrigger("kubernetes", wait.trigger.name)))
    with pytest.raises(AirflowFailException, match="made numbers@0123456789abcdef: its image is of another release"):
        StepOperator(task_id="count", step="count").resume({"outlet_events": {}}, event, **wait.kwargs)


def test_a_failure_seen_by_the_trigger_fails_the_task(cluster, monkeypatch):  # noqa: F811
    name = deferred(monkeypatch).trigger.name
    cluster.log(name, "a line", "foundry: key sk-only-in-this-test-0123 can never work")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-in-this-test-0123")
    cluster.terminated(name, 2)
    event = asyncio.run(first(CommandTrigger("kubernetes", name)))
    assert "sk-only" not in str(event)
    with pytest.raises(AirflowFailException, match="exit code 2") as caught:
        StepOperator(task_id="count", step="count").resume({"outlet_events": {}}, event)
    assert error_line(caught.value) == "foundry: key *** can never work"


def test_an_alert_says_what_ended_the_command_from_outside(cluster, monkeypatch):  # noqa: F811
    name = deferred(monkeypatch).trigger.name
    cluster.log(name, "30% done")
    cluster.terminated(name, 137, "OOMKilled")
    event = asyncio.run(first(CommandTrigger("kubernetes", name)))
    with pytest.raises(AirflowException) as caught:
        StepOperator(task_id="count", step="count").resume({"outlet_events": {}}, event)
    assert "out of memory" in error_line(caught.value)


def test_a_waiting_task_whose_pod_is_evicted_goes_on_where_the_step_came_further(cluster, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DEFERRABLE", "True")
    operator = StepOperator(task_id="stumble", step="stumble", values={"how": "climb", "mark": "unused"})
    with pytest.raises(TaskDeferred) as caught:
        operator.execute({"outlet_events": {}})
    name, kwargs = caught.value.trigger.name, caught.value.kwargs
    cluster.pods.clear()
    with pytest.raises(AirflowException, match="Evicted"):
        operator.resume({"outlet_events": {}}, EVICTED, **kwargs)
    assert not cluster.pods
    store = open_store()
    store.replace(f"headway/{operator.job(store).ref.version}", b"a checkpoint")
    with pytest.raises(TaskDeferred) as caught:
        operator.resume({"outlet_events": {}}, EVICTED, **kwargs)
    assert list(cluster.pods) == [name] and caught.value.kwargs == kwargs | {"before": "a checkpoint"}


def begun(monkeypatch) -> dict[str, Any]:
    """What a task that squares the latest numbers remembers while its pod runs."""
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DEFERRABLE", "True")
    go(open_store(), get_step("count"), parts=3)
    with pytest.raises(TaskDeferred) as caught:
        StepOperator(task_id="square", step="square").execute({"outlet_events": {}})
    assert caught.value.kwargs["before"] == "3 parts to go"
    return caught.value.kwargs


def test_a_waiting_task_whose_pod_is_evicted_goes_on_with_what_it_read_whatever_is_latest_by_then(
    cluster,  # noqa: F811
    monkeypatch,
):
    kwargs = begun(monkeypatch)
    cluster.pods.clear()
    store = open_store()
    first = {"numbers": [str(resolve(store, Ref.parse("numbers")))]}
    go(store, get_step("count"), parts=2)
    operator = StepOperator(task_id="square", step="square")
    with pytest.raises(AirflowException, match="Evicted"):
        operator.resume({"outlet_events": {}}, EVICTED, **kwargs)
    assert not cluster.pods, "the new numbers have fewer parts, and none of the old ones is done"
    run_job(store, operator.job(store, first), group=(0, 3))
    with pytest.raises(TaskDeferred) as caught:
        operator.resume({"outlet_events": {}}, EVICTED, **kwargs)
    (pod,) = cluster.pods.values()
    assert f"numbers={first['numbers'][0]}" in pod["spec"]["containers"][0]["args"]
    assert caught.value.kwargs == kwargs | {"before": "2 parts to go"}


def test_a_waiting_task_that_would_make_another_version_by_now_repeats_nothing(
    cluster,  # noqa: F811
    tmp_path,
    monkeypatch,
    caplog,
):
    kwargs = begun(monkeypatch)
    cluster.pods.clear()
    store, operator = open_store(), StepOperator(task_id="square", step="square")
    run_job(store, operator.job(store), group=(0, 3))
    (tmp_path / "parameters.toml").write_text("[square]\nrefuse = 99\n")
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
    settings.cache_clear()
    with pytest.raises(AirflowException, match="Evicted"):
        operator.resume({"outlet_events": {}}, EVICTED, **kwargs)
    assert not cluster.pods and "that is other work" in caplog.text and kwargs["version"] in caplog.text


def test_a_waiting_task_out_of_memory_goes_on_once_with_what_is_declared(cluster, tmp_path, monkeypatch):  # noqa: F811
    (tmp_path / "resources.toml").write_text("[count]\nmemory_gib = 2\nmore_memory_gib = 3\n")
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "resources.toml"))
    settings.cache_clear()
    wait, limits = deferred(monkeypatch), []
    for last in (False, True):
        (pod,) = cluster.pods.values()
        limits.append(pod["spec"]["containers"][0]["resources"]["limits"]["memory"])
        name = wait.trigger.name
        cluster.terminated(name, 137, "OOMKilled")
        event = asyncio.run(first(CommandTrigger("kubernetes", name)))
        said = "limit is 3072Mi.*2 GiB and then 3 GiB were too little"
        with pytest.raises(AirflowException if last else TaskDeferred, match=said if last else None) as caught:
            StepOperator(task_id="count", step="count").resume({"outlet_events": {}}, event, **(wait.kwargs or {}))
        wait = caught.value
    assert limits == ["2048Mi", "3072Mi"] and cluster.pods == {}


def test_one_triggerer_watches_many(cluster, monkeypatch):  # noqa: F811
    body = cluster.pods[deferred(monkeypatch).trigger.name]
    names = [f"foundry-{n}" for n in range(40)]
    for name in names:
        cluster.pods[name] = body | {"metadata": body["metadata"] | {"name": name}}
        cluster.running(name)

    async def watch():
        waits = [asyncio.create_task(first(CommandTrigger("kubernetes", name))) for name in names]
        await asyncio.sleep(0.2)
        for name in reversed(names):
            cluster.terminated(name, 0, "Completed", name)
        return await asyncio.wait_for(asyncio.gather(*waits), 30)

    assert [event["last_line"] for event in asyncio.run(watch())] == names


def test_a_user_who_ends_the_waiting_task_ends_the_pod(cluster, monkeypatch):  # noqa: F811
    trigger = deferred(monkeypatch).trigger
    asyncio.run(trigger.on_kill())
    assert cluster.pods == {}


def test_secrets_are_masked_in_what_the_trigger_logs(cluster, monkeypatch):  # noqa: F811
    from airflow.sdk._shared.secrets_masker import redact

    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-in-this-test-0123")
    name = deferred(monkeypatch).trigger.name
    cluster.terminated(name, 0)
    asyncio.run(first(CommandTrigger("kubernetes", name)))
    assert redact("key sk-only-in-this-test-0123") == "key ***"
