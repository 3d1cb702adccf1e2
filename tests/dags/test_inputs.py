"""Which versions a run reads."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor
from foundry_airflow.backends import EMPTY
from foundry_airflow.inputs import NamedOperator, StagesOperator, VersionsOperator
from foundry_airflow.operators import StepOperator, open_store

from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from tests.stores import go

pytestmark = pytest.mark.usefixtures("toys")


def made(step: str, given: dict[str, list[str]] | None = None, **values: object) -> str:
    return str(go(open_store(), get_step(step), given, **values).ref)


def triggered(*events: tuple[int, str, str | None]) -> TriggeringAssetEventsAccessor:
    """What Airflow tells a task of events, each at a second of a day: asset, and the version that it carries."""
    return TriggeringAssetEventsAccessor.build(
        AssetEventDagRunReferenceResult(
            asset={"name": asset, "uri": asset, "extra": {}},
            extra={"version": version} if version else {},
            timestamp=datetime(2026, 1, 1, second=second, tzinfo=UTC),
            source_aliases=[{"name": f"alias of {asset}"}],
            source_task_id="a",
            source_dag_id="b",
            source_run_id="c",
            source_map_index=-1,
        )
        for second, asset, version in events
    )


class Pushed(dict):
    def xcom_push(self, key, value):
        self[key] = value


def versions_read(events, named=None, **paths):
    """What the first task of a run that these events started hands on."""
    context = {"ti": Pushed(), "triggering_asset_events": events}
    VersionsOperator(task_id="versions", paths=paths, named=named or {}).execute(context)
    return context["ti"]


def test_a_run_reads_the_version_of_its_event_and_not_what_is_latest_by_now():
    first, second, third = (made("count", parts=parts) for parts in (1, 2, 3))
    old, new = (made("square", {"numbers": [numbers]}) for numbers in (first, third))
    paths = {"squares": "squares", "numbers": "squares > numbers"}
    assert versions_read(triggered(), **paths) == {"squares": [new], "numbers": [third]}
    assert versions_read(triggered((1, "squares", old)), **paths) == {"squares": [old], "numbers": [first]}


def test_of_events_that_queued_up_the_newest_of_each_asset_counts():
    first, second, third = (made("count", parts=parts) for parts in (1, 2, 3))
    squares = made("square", {"numbers": [first]})
    events = triggered((1, "squares", squares), (2, "numbers", second), (1, "numbers", third), (0, "numbers", first))
    assert versions_read(events, numbers="numbers", squares="squares") == {"numbers": [second], "squares": [squares]}
    assert versions_read(triggered((1, "numbers", None)), numbers="numbers") == {"numbers": [third]}, "made by hand"


def test_all_paths_of_a_run_begin_with_the_same_version():
    first = made("count", parts=1)
    squares = made("square", {"numbers": [first]})

    def meanwhile(store, starts):
        made("square", {"numbers": [made("count", parts=2)]})
        return []

    found = versions_read(triggered(), squares="squares", other=meanwhile, numbers="squares > numbers")
    assert found == {"squares": [squares], "other": [], "numbers": [first]}


def test_what_parameters_name_is_looked_up_once_for_a_run(tmp_path, monkeypatch):
    squares = made("square", {"numbers": [made("count")]})
    old = made("total", {"squares": [squares, made("count", parts=2)]}, plus=5)
    first, second = (made("total", {"squares": [squares]}, plus=plus) for plus in (0, 5))
    assert versions_read(triggered(), {"again": [{"plus": "5"}, ["totals"]]}) == {"again.totals": [second]}
    assert versions_read(triggered(), {"again": [{"plus": None}, ["totals"]]}) == {"again.totals": [first]}
    told = triggered((1, "total/5", old))
    assert versions_read(told, {"again": [{"plus": 5}, ["totals"]]}) == {"again.totals": [old]}
    with pytest.raises(AirflowFailException, match="total/7@latest is not in the store"):
        versions_read(triggered(), {"again": [{"plus": 7}, ["totals"]]})
    with pytest.raises(AirflowFailException, match="again: plus='many'"):
        versions_read(triggered(), {"again": [{"plus": "many"}, ["totals"]]})
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
    (tmp_path / "parameters.toml").write_text("[again]\nplus = 5\n")
    settings.cache_clear()
    assert versions_read(triggered(), {"again": [{"plus": None}, ["totals"]]}) == {"again.totals": [second]}


def test_of_what_a_run_makes_a_task_reads_what_its_parameters_name():
    squares = made("square", {"numbers": [made("count")]})
    mine = [made("total", {"squares": [squares]}, plus=plus) for plus in (1, 2)]
    latest = made("total", {"squares": [squares, made("count", parts=2)]}, plus=2)
    named = [{"plus": "2"}, ["totals"]]
    assert versions_read(triggered(), {"again": [*named, ["total/1"]]}) == {"again.totals": [latest]}
    assert versions_read(triggered(), {"again": [*named, ["total/2"]]}) == {"again.totals": []}, "is yet to be made"
    operator = NamedOperator(
        task_id="a", step="again", values={"plus": "2"}, reads="totals", versions=[[], None, *mine]
    )
    assert operator.execute({}) == [mine[1]] != [latest]


def test_a_mapped_task_reads_what_this_run_made_of_its_dataset():
    some, others = made("count", parts=1), made("count", parts=2)
    levels = [made("total", {"squares": [some]}, plus=plus) for plus in (1, 2)]
    latest = [made("total", {"squares": [others]}, plus=plus) for plus in (1, 2, 3)]

    def reads(plus):
        operator = StepOperator(task_id="again", step="again", inputs={"totals": levels}, each={"plus": plus})
        return operator.job(open_store()).input_names["totals"]

    assert reads("2") == [levels[1]]
    assert reads("3") == [latest[2]], "of a level that this run has not made the latest"


def test_models_are_those_named_or_those_that_changed():
    numbers = made("count")
    first = made("refine", {"init": [numbers]})
    second = made("refine", {"init": [first]})
    pushed: dict[str, object] = {}
    push = SimpleNamespace(xcom_push=pushed.__setitem__)
    context = {"triggering_asset_events": triggered((1, "refined", first)), "ti": push}
    assert StagesOperator(task_id="a", models="").execute(context) == [numbers, first]
    assert pushed == {"size": EMPTY, "backbone": "", "systems": ""}, "what they began as is not known"
    named = StagesOperator(task_id="b", models=["refined"])
    assert named.execute(context) == [numbers, first, second], "the latest, all its stages, the first one first"
    with pytest.raises(AirflowFailException, match="set the field"):
        StagesOperator(task_id="c", models="").execute({"triggering_asset_events": {}})
