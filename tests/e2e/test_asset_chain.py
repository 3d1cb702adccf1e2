"""Airflow's own scheduler: the weekly refresh starts by the clock, and each DAG starts the next through its asset."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.sample import parse_document
from pipeline_tasks.domains import domain_folder
from tests.e2e.airflow_stack import ENDS, PATIENCE_S, Airflow, airflow, wait_for

CHAIN = ("build_triplets", "synthesize_pairs", "corpus_refresh")
WEEK = timedelta(weeks=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One PDF of two passages that the recording knows: the first three sections of a sample document."""
    folder = tmp_path / "pdfs"
    folder.mkdir()
    document = parse_document(domain_folder() / "sample" / "b-sinkhole.md")
    short = replace(document, body="\n## ".join(document.body.split("\n## ")[:3]))
    (folder / "a.pdf").write_bytes(render(short))
    return folder


def ended(there: Airflow, dag_id: str, n: int) -> list[dict]:
    """The runs of a DAG once there are ``n`` of them and all have ended."""

    def look() -> list[dict]:
        runs = there.runs(dag_id)
        return runs if len(runs) == n and all(run["state"] in ENDS for run in runs) else []

    return wait_for(look, PATIENCE_S, f"run {n} of {dag_id}")


def started(there: Airflow, dag_id: str, n: int) -> list[dict]:
    """The runs of a DAG once there are ``n`` of them."""
    return wait_for(lambda: runs if len(runs := there.runs(dag_id)) >= n else [], PATIENCE_S, f"run {n} of {dag_id}")


def moment(run: dict) -> datetime:
    return datetime.fromisoformat(run["logical_date"])


def latest(store: Path, dataset: str) -> str:
    return f"{dataset}@{(store / 'refs' / dataset / 'latest').read_text()}"


def test_a_refresh_waits_for_a_source_and_starts_the_rest_and_a_week_starts_the_next(
    tmp_path: Path, folder: Path, by_default: dict[str, str]
) -> None:
    store, home = tmp_path / "store", tmp_path / "airflow"
    environment = by_default | {"FOUNDRY_STORE": str(store), "FOUNDRY_SOURCE_ROOTS": str(tmp_path)}

    with airflow(home, environment) as there:
        there.resume("corpus_refresh")
        (weekly,) = ended(there, "corpus_refresh", 1)
        assert (weekly["run_type"], weekly["state"]) == ("scheduled", "success"), "the last Sunday's, none before"
        found = there.states(weekly)
        assert [found.pop(name) for name in ("fold_lineage", "outcome")] == ["success"] * 2
        assert set(found.values()) == {"skipped"}, found
        there.start("corpus_refresh").raise_for_status()
        *_, by_hand = ended(there, "corpus_refresh", 2)
        assert (by_hand["state"], there.states(by_hand)["list_urls"]) == ("failed", "failed")

        there.ask("POST", "variables", key="foundry_source", value=str(folder))
        there.resume(*CHAIN)
        there.start("corpus_refresh").raise_for_status()
        *_, refresh = ended(there, "corpus_refresh", 3)
        assert refresh["state"] == "success"
        (pairs,) = ended(there, "synthesize_pairs", 1)
        assert (pairs["run_type"], pairs["state"]) == ("asset_triggered", "success")
        (triplets,) = started(there, "build_triplets", 1)
        assert triplets["run_type"] == "asset_triggered"
        for run, dataset, source in ((pairs, "passages", refresh), (triplets, "mtp", pairs)):
            (cause,) = there.causes(run)
            assert (cause["name"], cause["extra"]["version"]) == (dataset, latest(store, dataset))
            assert cause["source_run_id"] == source["dag_run_id"]
        there.ask("PATCH", "dags/build_triplets", is_paused=True)

    with airflow(home, environment, ahead_s=WEEK.total_seconds()) as there:
        *before, next_week = ended(there, "corpus_refresh", 4)
        assert before == [weekly, by_hand, refresh]
        assert (next_week["run_type"], next_week["state"]) == ("scheduled", "success")
        assert moment(next_week) - moment(weekly) == WEEK
        _, again = ended(there, "synthesize_pairs", 2)
        assert [cause["source_run_id"] for cause in there.causes(again)] == [next_week["dag_run_id"]]
        assert len(there.runs("corpus_refresh")) == 4, "one week, one run"

    bought = query(LocalStore(store), "SELECT sum(value) AS n FROM counters WHERE name = 'llm_requests'").to_pylist()
    answers = len(list(store.glob("responses/*/*.json")))
    assert bought == [{"n": float(answers)}] and answers > 0, "the second week paid for nothing"
