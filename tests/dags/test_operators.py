"""Operators with real child processes."""

import inspect
import json
import os
import threading
from pathlib import Path

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.supervisor import ActivitySubprocess
from foundry_airflow import operators, process
from foundry_airflow.calls import Call
from foundry_airflow.containers import container_of, folders
from foundry_airflow.forms import form
from foundry_airflow.groups import GroupsOperator
from foundry_airflow.operators import StepOperator, open_store
from foundry_airflow.paths import follow
from foundry_airflow.steps import default

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.settings import settings

pytestmark = pytest.mark.usefixtures("toys")


class Event:
    def __init__(self):
        self.extra, self.added = {}, []

    def add(self, asset, extra):
        self.added.append((asset.name, extra))


def execute(operator, outlets=()):
    events = {outlet: Event() for outlet in outlets}
    operator.outlets = list(outlets)
    return operator.execute({"outlet_events": events}), events


def run(step, **kwargs):
    return execute(StepOperator(task_id=step, step=step, **kwargs))[0]


def test_a_step_is_built_then_reused_without_a_process(store_folder, monkeypatch):
    made = run("count")
    monkeypatch.setattr("foundry_airflow.process.COMMAND", ("/bin/false",))
    assert run("count") == made
    assert made.startswith("numbers@")
    last = sorted((store_folder / "lineage" / "events").glob("*-complete.json"))[-1]
    assert json.loads(last.read_text())["run"]["facets"]["foundry"]["reused"] is True


def test_the_asset_event_carries_the_version():
    asset, alias = Asset("numbers"), AssetAlias("total/<plus>")
    made, events = execute(StepOperator(task_id="count", step="count"), [asset])
    assert events[asset].extra == {"version": made}
    squares = run("square", inputs={"numbers": made})
    operator = StepOperator(task_id="total", step="total", inputs={"squares": [squares]}, values={"plus": "3"})
    made, events = execute(operator, [alias])
    assert events[alias].added == [("total/3", {"version": made})]


def test_only_groups_with_work_are_listed_and_the_commit_finds_them(store_folder):
    numbers = run("count", values={"parts": 6})
    work = {"step": "square", "inputs": {"numbers": numbers}}
    plan = GroupsOperator(task_id="plan", max_groups=4, **work)
    assert plan.execute({}) == ["0/4", "1/4", "2/4", "3/4"]
    assert run(work["step"], inputs=work["inputs"], group="1/4") == "group 1/4"
    assert plan.execute({}) == ["0/4", "2/4", "3/4"]
    for group in ("0/4", "2/4"):
        run(work["step"], inputs=work["inputs"], group=group)
    assert plan.execute({}) == [], "one part is left, the commit does it"
    made = run(work["step"], inputs=work["inputs"])
    complete = sorted((store_folder / "lineage" / "events").glob("*-complete.json"))[-1]
    counters = json.loads(complete.read_text())["run"]["facets"]["foundry"]["counters"]
    assert (counters["parts_built"], counters["parts_reused"]) == (1, 5)
    assert plan.execute({}) == []
    assert made.startswith("squares@")


def test_a_cluster_gets_all_parts_in_one_run(store_folder, monkeypatch):
    numbers = run("count", values={"parts": 6})
    monkeypatch.setenv("FOUNDRY_ENGINE", "ray")
    settings.cache_clear()
    assert GroupsOperator(task_id="plan", max_groups=4, step="square", inputs={"numbers": numbers}).execute({}) == []


def test_a_command_that_is_gone_may_have_done_its_work():
    gone = {"exit_code": 137, "last_line": "", "why": "its container is gone; somebody removed it"}
    follower = StepOperator(task_id="count", step="count")
    with pytest.raises(AirflowException, match="is gone"):
        follower.resume({"outlet_events": {}}, gone)
    made = run("count")
    assert follower.resume({"outlet_events": {}}, gone) == made


def test_groups_are_counted_from_one_in_the_ui():
    assert StepOperator(task_id="a", step="square", group="2/8").map_label == "group 3/8"
    assert StepOperator(task_id="b", step="total", each={"plus": "4"}).map_label == "plus 4"


@pytest.mark.parametrize("how", ["input", "bug"])
def test_what_cannot_work_fails_for_good(tmp_path, how):
    with pytest.raises(AirflowFailException, match="stumble failed"):
        run("stumble", values={"how": how, "mark": str(tmp_path / "mark")})


@pytest.mark.parametrize(("how", "match"), [("twice", "tried again"), ("killed", "was killed")])
def test_what_may_work_later_asks_for_another_try(tmp_path, how, match):
    with pytest.raises(AirflowException, match=match) as caught:
        run("stumble", values={"how": how, "mark": str(tmp_path / "mark")})
    assert not isinstance(caught.value, AirflowFailException)


def test_a_step_that_is_killed_after_a_checkpoint_is_not_counted_out(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0")
    mark = tmp_path / "mark"
    assert run("stumble", values={"how": "climb", "mark": str(mark)}).startswith("stumbles@")
    assert len(mark.read_text().splitlines()) == 3, "two killed tries came further, within one of Airflow's"
    assert not list(open_store().keys("headway"))


def test_a_map_step_that_is_killed_after_a_part_is_not_counted_out(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0")
    numbers = run("count", values={"parts": 3})
    assert run("square", inputs={"numbers": numbers}, values={"deadly": str(tmp_path)}).startswith("squares@")
    assert len(list(tmp_path.glob("killed-*"))) == 3


def test_a_try_that_lasts_too_long_is_ended_and_the_file_says_after_how_long(tmp_path, monkeypatch):
    (tmp_path / "resources.toml").write_text("[default]\nretries = 9\n[stumble]\ntimeout_minutes = 0.02\n")
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "resources.toml"))
    settings.cache_clear()
    with pytest.raises(AirflowException, match="exit code 124.*longer than it may"):
        run("stumble", values={"how": "hang", "mark": str(tmp_path / "mark")})


def test_what_the_operators_file_says_of_a_step_reaches_its_container_without_the_file(tmp_path, monkeypatch):
    (tmp_path / "resources.toml").write_text(
        "[default]\nretries = 9\n[count]\nmemory_gib = 3\n[stumble]\nmemory_gib = 7\n"
    )
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "resources.toml"))
    monkeypatch.setenv("FOUNDRY_SCRATCH", str(tmp_path / "scratch"))
    settings.cache_clear()
    wanted = resources_of(get_step("count"))
    told = container_of(Call("count", "76a59d9ae48d0d8e", (), wanted)).environment
    assert folders()["scratch"] == told["FOUNDRY_SCRATCH"], "what is named is mounted"
    for name in ("FOUNDRY_RESOURCES", "FOUNDRY_SCRATCH"):
        monkeypatch.delenv(name)
    assert "FOUNDRY_RESOURCES" not in told and "stumble" not in told["FOUNDRY_HANDED_RESOURCES"]
    monkeypatch.setenv("FOUNDRY_HANDED_RESOURCES", told["FOUNDRY_HANDED_RESOURCES"])
    settings.cache_clear()
    assert resources_of(get_step("count")) == wanted and (wanted.memory_gib, wanted.retries) == (3, 9)


def test_what_the_operator_says_of_parameters_decides_the_shape_of_dags_too(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
    (tmp_path / "parameters.toml").write_text("[count]\nparts = 3\n")
    settings.cache_clear()
    assert default("count", "parts") == 3 != get_step("count").params.model_fields["parts"].default


def test_what_the_operator_says_of_parameters_is_in_the_command_and_in_the_form(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
    (tmp_path / "parameters.toml").write_text("[count]\nparts = 3\n")
    settings.cache_clear()
    operator = StepOperator(task_id="count", step="count", values={"parts": None})
    call = operator._call(operator.job(open_store()))
    assert call.arguments == ("run", "count", "--set", "parts=3")
    assert "FOUNDRY_PARAMETERS" not in container_of(call).environment, "no such file there"
    told = StepOperator(task_id="count", step="count", values={"parts": 4})
    assert told.parameters() == {"parts": 4}
    assert "(left empty: 3)" in form("count", "parts").params["parts"].description


def test_planning_errors_fail_before_any_process(tmp_path, monkeypatch):
    monkeypatch.setattr("foundry_airflow.process.COMMAND", ("/bin/false",))
    with pytest.raises(AirflowFailException, match="wrong"):
        run("count", values={"wrong": 1})
    with pytest.raises(AirflowFailException, match="not in the store"):
        run("square", inputs={"numbers": "numbers@absent"})


def test_a_cancelled_task_ends_its_process_group_and_begins_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__RETRY_DELAY_S", "0")
    mark = tmp_path / "mark"
    operator = StepOperator(task_id="stumble", step="stumble", values={"how": "hang", "mark": str(mark)})
    ended, store = threading.Event(), open_store()

    def cancel_when_running():
        while not (mark.exists() and mark.read_text().endswith("\n")):
            if ended.wait(0.02):
                return
        store.replace(f"headway/{operator.job(store).ref.version}", b"a checkpoint")
        operator.on_kill()

    watcher = threading.Thread(target=cancel_when_running)
    watcher.start()
    with pytest.raises(AirflowException, match="was killed"):
        execute(operator)
    ended.set()
    watcher.join()
    assert len(mark.read_text().splitlines()) == 1
    for pid in map(int, mark.read_text().split()):
        assert not _alive(pid)


def test_a_step_that_does_not_end_is_ended_before_airflow_ends_the_task_that_sees_to_it():
    grace = inspect.signature(ActivitySubprocess.kill).parameters["escalation_delay"].default
    assert process.GRACE_S < grace - 1


def test_a_task_that_is_cancelled_before_its_step_begins_anew_begins_none(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    operator = StepOperator(task_id="stumble", step="stumble", values={"how": "climb", "mark": str(mark)})
    monkeypatch.setattr("foundry_airflow.tries.sleep", lambda _: operator.on_kill())
    with pytest.raises(AirflowException, match="was killed"):
        execute(operator)
    assert len(mark.read_text().splitlines()) == 1


@pytest.mark.parametrize(("module", "name"), [(operators, "call_of"), (operators, "so_far"), (process, "start")])
def test_a_task_that_is_cancelled_before_its_step_has_begun_runs_none(tmp_path, monkeypatch, module, name):
    mark = tmp_path / "mark"
    operator = StepOperator(task_id="stumble", step="stumble", values={"how": "climb", "mark": str(mark)})
    do, done = getattr(module, name), []

    def cancelled_meanwhile(*args):
        done.append(do(*args))
        operator.on_kill()
        return done[-1]

    monkeypatch.setattr(module, name, cancelled_meanwhile)
    with pytest.raises(AirflowException, match="stumble does not run: its task was cancelled|stumble was killed"):
        execute(operator)
    assert done[0].poll() if name == "start" else not mark.exists()


def _alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_unset_parameters_and_skipped_inputs(monkeypatch):
    numbers = run("count", values={"parts": None})
    squares = run("square", inputs={"numbers": numbers}, values={"refuse": ""})
    assert run("total", inputs={"squares": [squares, None]}).startswith("total/0@")
    with pytest.raises(AirflowSkipException, match="squares was skipped"):
        run("total", inputs={"squares": [None]})
    with pytest.raises(AirflowSkipException):
        run("square", inputs={"numbers": None})
    assert run("total", inputs={"squares": []}) != run("total", inputs={"squares": [squares]}), "none is not the latest"
    with pytest.raises(AirflowSkipException, match="nothing to do"):
        run("count", only_if="")
    with pytest.raises(AirflowSkipException, match="set the variable"):
        run("count", only_if="False", otherwise="set the variable")


def test_paths_follow_what_a_version_was_made_from():
    numbers = run("count")
    squares = run("square", inputs={"numbers": numbers})
    run("total", inputs={"squares": [squares]})
    store = open_store()
    assert follow(store, "total/0 > squares") == [squares]
    assert follow(store, "total/0 > squares > numbers") == [numbers]
    assert follow(store, "numbers") == [numbers]
    assert follow(store, "total/0 > squares > num*") == [numbers]
    assert follow(store, "total/0 > squares > other/*") == []
    with pytest.raises(InputError, match="made from: squares"):
        follow(store, "total/0 > numbers")


def test_an_unknown_back_end_is_refused(monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", "mainframe")
    with pytest.raises(AirflowFailException, match="'mainframe'.*process"):
        run("count")
