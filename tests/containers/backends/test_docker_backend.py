"""Steps in containers of a real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from foundry_airflow.backends import backend, checked
from foundry_airflow.calls import Call
from foundry_airflow.operators import StepOperator, open_store

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources
from pipeline_tasks.core.versions import Version

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("on_docker")]


def run(step: str, **kwargs):
    return StepOperator(task_id=step, step=step, **kwargs).execute({"outlet_events": {}})


def call_of_stumble(how: str, mark: str) -> Call:
    operator = StepOperator(task_id="stumble", step="stumble", values={"how": how, "mark": mark})
    return operator._call(operator.job(open_store()))


def events(store: Path, kind: str) -> list[dict]:
    """Facts of the events of that kind, the first one first."""
    found = sorted((store / "lineage" / "events").glob(f"*-{kind}.json"))
    return [json.loads(path.read_text())["run"]["facets"]["foundry"] for path in found]


def of_store(client: docker.DockerClient, store: Path) -> list:
    everything = client.containers.list(all=True, filters={"label": "app=retriever-foundry"})
    return [c for c in everything if any(m["Source"] == str(store) for m in c.attrs["Mounts"])]


def wait_for(condition, timeout_s=30.0):
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen in time"
        threading.Event().wait(0.05)
    return found


def test_a_chain_makes_the_same_versions_as_processes_do(store_folder, on_docker, monkeypatch):
    numbers = run("count")
    assert run("square", inputs={"numbers": numbers}, group="1/4") == "group 1/4"
    squares = run("square", inputs={"numbers": numbers})
    assert events(store_folder, "complete")[-1]["counters"]["parts_reused"] == 1
    made = [numbers, squares]
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", "process")
    assert [run("count"), run("square", inputs={"numbers": numbers})] == made
    assert events(store_folder, "complete")[-1]["reused"] is True
    assert of_store(on_docker, store_folder) == [], "what has ended is removed"


@pytest.mark.parametrize(
    ("how", "kind", "match"),
    [
        ("input", AirflowFailException, "failed with exit code 2"),
        ("bug", AirflowFailException, "failed with exit code 1"),
        ("twice", AirflowException, "asks to be tried again .exit code 75"),
        ("memory", AirflowException, r"out of memory, its limit is 0\.1\d* GiB"),
        ("killed", AirflowException, "was killed .exit code 137"),
    ],
)
def test_how_a_container_ended_decides_about_another_try(store_folder, how, kind, match, monkeypatch, on_docker):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__MEMORY_FACTOR", "0.07")
    with pytest.raises(AirflowException, match=match) as caught:
        run("stumble", values={"how": how, "mark": str(store_folder / "mark")})
    assert type(caught.value) is kind
    assert of_store(on_docker, store_folder) == []


def test_a_container_out_of_memory_runs_once_more_with_what_is_declared(store_folder, monkeypatch, on_docker, caplog):
    resources, mark = store_folder.parent / "resources.toml", store_folder / "mark"
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(resources))
    settings.cache_clear()
    resources.write_text("[stumble]\nmemory_gib = 0.14\nmore_memory_gib = 0.25\n")
    with pytest.raises(AirflowException, match=r"limit is 0\.25 GiB.*0\.14 GiB and then 0\.25 GiB were too little"):
        run("stumble", values={"how": "memory", "mark": str(mark)})
    assert len(mark.read_text().splitlines()) == 2, "once more, and no third time"
    resources.write_text("[stumble]\nmemory_gib = 0.14\nmore_memory_gib = 1\n")
    assert run("stumble", values={"how": "memory", "mark": str(mark)}).startswith("stumbles@")
    assert len(mark.read_text().splitlines()) == 4
    assert "out of memory with 0.14 GiB; once more with 1 GiB" in caplog.text
    assert of_store(on_docker, store_folder) == []


def test_a_command_that_runs_too_long_is_ended_inside(store_folder):
    mark = str(store_folder / "mark")
    call = replace(call_of_stumble("hang", mark), resources=Resources(timeout_minutes=0.05))
    with pytest.raises(AirflowException, match="longer than it may"):
        checked("stumble", backend("docker").run(call, lambda line: None))


def test_every_line_comes_while_the_step_runs(store_folder, caplog):
    mark = store_folder / "mark"

    def ticks() -> list[str]:
        return [r.getMessage().split("tick ")[1] for r in caplog.records if "tick " in r.getMessage()]

    def go() -> None:
        wait_for(lambda: len(ticks()) > 5)
        mark.with_suffix(".go").touch()

    waiter = threading.Thread(target=go)
    waiter.start()
    with caplog.at_level("INFO"):
        run("stumble", values={"how": "wait", "mark": str(mark)})
    waiter.join()
    assert ticks() == [str(n) for n in range(len(ticks()))], "each line once, in order"


def test_cancel_ends_the_container_within_seconds(store_folder, on_docker):
    mark = store_folder / "mark"
    operator = StepOperator(task_id="s", step="stumble", values={"how": "hang", "mark": str(mark)})
    took = []

    def cancel():
        wait_for(lambda: mark.exists() and mark.read_text().endswith("\n"))
        began = time.monotonic()
        operator.on_kill()
        took.append(time.monotonic() - began)

    killer = threading.Thread(target=cancel)
    killer.start()
    with pytest.raises(AirflowException, match="was killed|is gone|was ended"):
        operator.execute({"outlet_events": {}})
    killer.join()
    assert took[0] < 8
    assert of_store(on_docker, store_folder) == []


TASK = """
import sys
from pathlib import Path
from foundry_airflow.local_run import configure
configure(Path(sys.argv[1]), Path(sys.argv[1]))
from foundry_airflow import calls
from foundry_airflow.backends import backend, checked
from foundry_airflow.calls import Call
from foundry_airflow.operators import StepOperator
from toys import cli
calls.COMMAND = ("python3", "-m", cli.__name__)
operator = StepOperator(task_id="s", step="stumble", values={"how": "wait", "mark": sys.argv[2]})
print(operator.execute({"outlet_events": {}}))
"""


def test_a_killed_task_loses_nothing_and_pays_nothing_twice(store_folder, on_docker, tmp_path, root):
    mark = store_folder / "mark"
    paths = os.pathsep.join(map(str, (root, root / "plugins", root / "tests" / "dags")))
    command = [sys.executable, "-c", TASK, str(tmp_path / "airflow"), str(mark)]
    task = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, start_new_session=True)
    wait_for(lambda: mark.exists() and mark.read_text().endswith("\n"))
    os.killpg(task.pid, signal.SIGKILL)
    assert task.wait() == -signal.SIGKILL
    (left,) = of_store(on_docker, store_folder)
    assert left.status == "running"

    lines = []

    def say(line):
        lines.append(line)
        mark.with_suffix(".go").touch()

    ended = backend("docker").run(call_of_stumble("wait", str(mark)), say)
    assert ended.exit_code == 0
    assert "runs already" in lines[0]
    assert any("tick 0" in line for line in lines), "the log from its beginning"
    assert ended.last_line.startswith("stumbles@")
    assert len(mark.read_text().splitlines()) == len(events(store_folder, "start")) == 1, "it ran once"
    assert run("stumble", values={"how": "wait", "mark": str(mark)}) == ended.last_line
    assert of_store(on_docker, store_folder) == []


def test_two_tasks_that_want_the_same_version_share_one_container(store_folder, on_docker):
    mark = store_folder / "mark"
    made: list[str] = []

    def task() -> None:
        try:
            made.append(run("stumble", values={"how": "wait", "mark": str(mark)}))
        except AirflowException as error:  # the other one saw the end first and removed it
            assert not isinstance(error, AirflowFailException)
            made.append(run("stumble", values={"how": "wait", "mark": str(mark)}))

    tasks = [threading.Thread(target=task) for _ in range(2)]
    for thread in tasks:
        thread.start()
    wait_for(lambda: mark.exists())
    mark.with_suffix(".go").touch()
    for thread in tasks:
        thread.join()
    assert len(made) == 2 and len(set(made)) == 1
    assert len(mark.read_text().splitlines()) == 1


def test_a_container_has_limits_and_no_rights(store_folder, on_docker, monkeypatch):
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret + "-aws")
    monkeypatch.setenv("BRAVE_API_KEY", "of another step")
    monkeypatch.setenv("UNRELATED_PASSWORD", "not passed on")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__CPUS", "1")
    mark = store_folder / "mark"
    waiter = threading.Thread(target=lambda: run("stumble", values={"how": "wait", "mark": str(mark)}))
    waiter.start()
    wait_for(mark.exists)
    (container,) = of_store(on_docker, store_folder)
    seen, host = container.attrs, container.attrs["HostConfig"]
    processes = container.top(ps_args="-eo pid,uid,args")["Processes"]
    mark.with_suffix(".go").touch()
    waiter.join()
    assert host["ReadonlyRootfs"] and not host["Privileged"] and host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == 2 * 2**30
    assert host["NanoCpus"] == 10**9
    assert {uid for _, uid, _ in processes} == {seen["Config"]["User"].split(":")[0]} != {"0"}
    environment = dict(line.split("=", 1) for line in seen["Config"]["Env"])
    assert environment["OPENAI_API_KEY"] == secret and environment["FOUNDRY_WORKERS"] == "1"
    assert not {"UNRELATED_PASSWORD", "BRAVE_API_KEY", "AWS_SECRET_ACCESS_KEY"} & environment.keys()
    seen["Config"].pop("Env")
    assert secret not in json.dumps(seen), "neither in labels nor in the command"
    assert secret not in " ".join(args for *_, args in processes)


HOSTILE = [
    "$(touch /tmp/owned)",
    "`touch /tmp/owned`",
    "; touch /tmp/owned",
    "| touch /tmp/owned",
    "&& touch /tmp/owned #",
    "' ; touch /tmp/owned ; '",
    '" ; touch /tmp/owned ; "',
    "{{ 7 * 7 }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{{ ti.task.owner }}",
    "line one\ntouch /tmp/owned\n",
    "\r\nFAKE INFO log line",
    "--group",
    "--input=numbers=numbers@0",
    "-h",
    "--",
    "[1, 2",
    '{"a": 1}',
    '"quoted"',
    "../../etc/passwd",
    "$OPENAI_API_KEY ${HOME} $(HOME) %s %(x)s",
    "\u202eabc \u2028 \x1b[31mred\x1b[0m",
]


@pytest.mark.parametrize("backend_name", ["process", "docker"])
def test_hostile_values_stay_data(store_folder, on_docker, monkeypatch, backend_name):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", backend_name)
    mark = str(store_folder / "mark")
    for value in HOSTILE:
        made = run("stumble", values={"how": value, "mark": mark})
        assert made == str(plan(open_store(), get_step("stumble"), {"how": value, "mark": mark}).ref)
        assert Version.open(open_store(), Ref.parse(made)).manifest.params["how"] == value
    assert not Path("/tmp/owned").exists()


def test_what_is_set_wrongly_is_said_and_not_tried_again(monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "0:0")
    with pytest.raises(AirflowFailException, match="do not run as root"):
        run("count")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "10001:10001")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__CPUS", "many")
    with pytest.raises(AirflowFailException, match="cpus is 'many'"):
        run("count")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__CPUS", "0")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_NETWORK", "no-such-network")
    with pytest.raises(AirflowFailException, match="no-such-network"):
        run("count")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(AirflowException, match="DOCKER_HOST"):
        run("count")
