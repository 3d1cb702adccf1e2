"""The engine ``kubernetes`` against ``fake_kubernetes_api``: real HTTP, no cluster. The specs are checked elsewhere."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

pytest.importorskip("kubernetes", reason="the extra `kubernetes` is not installed")

from foundry_airflow.backends import backend, checked, engine
from foundry_airflow.calls import Call, Ended
from foundry_airflow.containers import container_of
from foundry_airflow.engines import Follower
from foundry_airflow.operators import StepOperator, airflow_errors
from foundry_airflow.pod_status import lost

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.step import Resources
from tests.dags.fake_kubernetes_api import fake_kubernetes_api

pytestmark = pytest.mark.usefixtures("toys")
CALL = Call("count", "76a59d9ae48d0d8e", ("run", "count"), Resources(memory_gib=2))


@pytest.fixture
def cluster(tmp_path, monkeypatch, store_folder):
    template = tmp_path / "pod.yaml"
    template.write_text(
        "kind: Pod\nspec: {containers: [{name: step, volumeMounts: "
        f"[{{name: store, mountPath: {store_folder}}}]}}], volumes: [{{name: store, emptyDir: {{}}}}]}}\n"
    )
    with fake_kubernetes_api(tmp_path) as (found, kubeconfig):
        options = {
            "BACKEND": "kubernetes",
            "POLL_S": "0.02",
            "KUBERNETES_NAMESPACE": "steps",
            "KUBERNETES_CONFIG": str(kubeconfig),
            "KUBERNETES_TEMPLATE_CPU": str(template),
        }
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__FOUNDRY__{name}", value)
        yield found


def play(cluster, scene, call=CALL):
    """Run ``call`` while ``scene`` plays the cluster's part once the pod is there; how it ended, and its lines."""
    lines: list[str] = []
    errors: list[Exception] = []

    def act() -> None:
        try:
            assert cluster.created.wait(10)
            scene(call.name, lines)
        except Exception as error:
            errors.append(error)

    actor = threading.Thread(target=act)
    actor.start()
    ended = backend("kubernetes").run(call, lines.append)
    actor.join()
    assert not errors
    return ended, lines


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def test_lines_come_once_and_the_result_is_the_termination_message(cluster):
    def scene(name, lines):
        cluster.state(name, "Pending", conditions=[
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has a card"}
        ])  # fmt: skip
        until(lambda: any("Unschedulable: no node has a card" in line for line in lines))
        cluster.log(name, "one", "two")
        cluster.running(name)
        until(lambda: "two" in lines)
        cluster.log(name, "three")
        cluster.failing = 3
        until(lambda: not cluster.failing)
        cluster.terminated(name, 0, "Completed", "numbers@76a59d9ae48d0d8e\n")

    ended, lines = play(cluster, scene)
    assert ended == Ended(0, "numbers@76a59d9ae48d0d8e")
    assert [line for line in lines if CALL.name not in line] == ["one", "two", "three"]
    assert cluster.pods == {}, "a pod that has ended is removed"


@pytest.mark.parametrize(
    ("scene", "kind", "match"),
    [
        (lambda c, n: c.terminated(n, 2), AirflowFailException, "exit code 2"),
        (lambda c, n: c.terminated(n, 1), AirflowFailException, "exit code 1"),
        (lambda c, n: c.terminated(n, 75), AirflowException, "tried again"),
        (lambda c, n: c.terminated(n, 137, "OOMKilled"), AirflowException, "out of memory, its limit is 2048Mi"),
        (lambda c, n: c.terminated(n, 75, "OOMKilled"), AirflowException, "out of memory, its limit is 2048Mi"),
        (lambda c, n: c.terminated(n, 2, "OOMKilled"), AirflowFailException, "exit code 2"),
        (
            lambda c, n: c.state(n, "Failed", reason="Evicted", message="The node was low on resource: memory."),
            AirflowException,
            "Evicted: The node was low on resource",
        ),
        (lambda c, n: c.state(n, "Failed", reason="DeadlineExceeded"), AirflowException, "DeadlineExceeded"),
        (lambda c, n: c.pods.pop(n), AirflowException, "pod is gone"),
    ],
)
def test_how_a_pod_ended_decides_about_another_try(cluster, scene, kind, match):
    ended, _ = play(cluster, lambda name, lines: scene(cluster, name))
    with pytest.raises(AirflowException, match=match) as caught:
        checked("count", ended)
    assert type(caught.value) is kind


def test_a_pod_that_never_begins_is_given_up(cluster, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__KUBERNETES_START_MINUTES", "0.001")

    def scene(name, lines):
        cluster.state(name, "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})

    ended, _ = play(cluster, scene)
    assert ended.exit_code == 137 and "did not begin" in ended.why


def test_a_pod_whose_node_does_not_answer_has_ended_and_is_removed_by_force(cluster):
    def scene(name, lines):
        cluster.running(name)
        cluster.pods[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.pods[name]["status"]["reason"] = "NodeLost"

    ended, _ = play(cluster, scene)
    assert (ended.exit_code, ended.why) == (137, "its node does not answer: NodeLost")


def test_a_pod_that_is_just_being_removed_is_waited_for():
    pod = {"metadata": {"deletionTimestamp": datetime.now(UTC).isoformat()}, "status": {"phase": "Running"}}
    assert lost(pod) is None


def test_the_next_try_follows_the_pod_of_a_killed_one(cluster):
    first = backend("kubernetes")
    first.start(CALL, str)
    cluster.running(CALL.name)
    cluster.log(CALL.name, "from before")

    def scene(name, lines):
        until(lambda: "from before" in lines)
        cluster.terminated(name, 0, "Completed", "numbers@1")

    ended, lines = play(cluster, scene)
    assert ended.last_line == "numbers@1" and "runs already" in lines[0]
    assert sum(call.startswith("POST") for call in cluster.calls) == 1


def test_what_is_left_of_an_ended_try_gives_way(cluster):
    backend("kubernetes").start(CALL, str)
    cluster.terminated(CALL.name, 2)
    backend("kubernetes").start(CALL, str)
    assert cluster.pods[CALL.name]["status"] == {"phase": "Pending"}


@pytest.fixture
def cluster_with_proxy(cluster, tmp_path):
    """A container runs beside the step's."""
    template = tmp_path / "pod.yaml"
    template.write_text(template.read_text().replace("[{name: step", "[{name: proxy, image: proxy}, {name: step"))
    return cluster


def test_a_step_has_ended_though_a_container_beside_it_runs_on(cluster_with_proxy):
    cluster, there = cluster_with_proxy, engine("kubernetes")
    there.start(CALL)
    cluster.running(CALL.name)
    assert Follower(there, CALL.name).look() == ([], None)
    assert not there.start(CALL), "what runs is followed"
    cluster.terminated(CALL.name, 137, "OOMKilled", ago_s=61)
    assert there.look(CALL.name, "").ended.out_of_memory
    assert there.start(CALL), "what is left of an ended try gives way"
    cluster.terminated(CALL.name, 0, "Completed", "numbers@76a59d9ae48d0d8e\n")
    assert Follower(there, CALL.name).look() == ([], Ended(0, "numbers@76a59d9ae48d0d8e"))
    assert cluster.pods == {}, "it is removed with what runs beside it"


@pytest.mark.parametrize("code", [1, 137, 143])
def test_why_a_pod_is_ended_is_waited_for_until_what_runs_beside_its_step_has_stopped(cluster_with_proxy, code):
    there, follower = engine("kubernetes"), Follower(engine("kubernetes"), CALL.name)
    there.start(CALL)
    cluster_with_proxy.terminated(CALL.name, code)
    assert follower.look() == ([], None)
    assert not there.start(CALL), "it is followed"
    cluster_with_proxy.pods[CALL.name]["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
    with pytest.raises(AirflowException, match="Evicted: low on memory") as caught:
        checked("count", follower.look()[1])
    assert type(caught.value) is AirflowException


@pytest.mark.parametrize(("ago_s", "believed"), [(61, True), (30, False), (-30, False), (-100, True), (None, True)])
def test_a_step_that_failed_by_itself_has_ended_a_minute_later_by_any_clock(cluster_with_proxy, ago_s, believed):
    there = engine("kubernetes")
    there.start(CALL)
    cluster_with_proxy.terminated(CALL.name, 1, ago_s=ago_s or 0)
    if ago_s is None:
        del cluster_with_proxy.pods[CALL.name]["status"]["containerStatuses"][1]["state"]["terminated"]["finishedAt"]
    assert there.look(CALL.name, "").ended == (Ended(1) if believed else None)
    assert there.start(CALL) == believed


def test_cancel_deletes_the_pod(cluster):
    started = backend("kubernetes")
    started.start(CALL, str)
    started.cancel()
    started.cancel()
    assert cluster.pods == {}


def test_a_pod_that_is_cancelled_before_it_is_there_leaves_none(cluster, monkeypatch):
    asked = backend("kubernetes")

    def cancelled_meanwhile(call):
        asked.cancel()
        return container_of(call)

    monkeypatch.setattr("foundry_airflow.kubernetes.container_of", cancelled_meanwhile)
    for _ in range(2):
        with pytest.raises(TransientError, match="count does not run: its task was cancelled"):
            asked.start(CALL, str)
        assert cluster.pods == {} and sum(call.startswith("POST") for call in cluster.calls) == 1


def test_a_step_without_rights_or_template_fails_with_a_remedy(cluster, monkeypatch):
    cluster.refusing = 403
    with pytest.raises(AirflowFailException, match="403.*docs/kubernetes.md"), airflow_errors():
        backend("kubernetes").run(CALL, str)
    monkeypatch.setenv("AIRFLOW__FOUNDRY__KUBERNETES_TEMPLATE_CPU", "")
    with pytest.raises(AirflowFailException, match="a pod cannot see the folder"):
        StepOperator(task_id="count", step="count").execute({"outlet_events": {}})


def test_a_template_that_gives_every_step_all_secrets_is_refused(cluster, tmp_path):
    template = tmp_path / "pod.yaml"
    source = "envFrom: [{secretRef: {name: foundry-secrets}}], volumeMounts"
    template.write_text(template.read_text().replace("volumeMounts", source))
    with pytest.raises(AirflowFailException, match="envFrom: a pod is given the keys"), airflow_errors():
        backend("kubernetes").run(CALL, str)
