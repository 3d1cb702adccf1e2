"""A new level through the DAGs, by the real REST API: selection alone runs, nothing is encoded or searched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, point
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import NEEDS, PAIRS, PASSAGES
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.e2e.airflow_stack import ENDS, PATIENCE_S, Airflow, ui, wait_for
from tests.stores import go, put

N = 24
PAID = ("texts_encoded", "queries_searched", "vectors_bought")


def plant(store: LocalStore, step: Step, rows: list[dict], model: str) -> None:
    """The version that ``step`` would make of the latest inputs, with these rows; no model is run."""
    job = plan(store, step, {"model": model})
    part = write_rows(store, step.writes.table(rows))
    made = {"dataset": job.dataset, "id": job.ref.version, "step": step.name, "code_version": step.version}
    known = {"rows_schema": step.writes.name, "key": step.writes.key, "params": job.identity, "inputs": job.input_names}
    commit(store, Manifest(rows=len(rows), parts=[part], **made, **known))
    point(store, job.ref)


@pytest.fixture
def ranked(tmp_path: Path) -> LocalStore:
    """Rankings, labels and ``mtt/0.75`` of a few queries, with vectors made by hand."""
    store, chance = LocalStore(tmp_path / "store"), np.random.default_rng(0)
    texts = [{"passage_id": f"p{i:02}", "text": f"text {i}", "split": "train"} for i in range(N)]
    needs = put(store, NEEDS, passages=put(store, PASSAGES, texts))
    pairs = [
        {"query_id": f"q{i:02}", "passage_id": f"p{i:02}", "intent": "qa", "query": f"about {i}?", "split": "train",
         "positive_id": f"g{i:02}", "positive": f"written {i}", "passage": f"text {i}", "origin": "dm"}
        for i in range(N)
    ]  # fmt: skip
    written = put(store, PAIRS, pairs, dataset="mtp/dm", needs=needs)
    combined = put(store, PAIRS, pairs, dataset="mtp/combined", dm=written)
    put(store, PAIRS, pairs, dataset="mtp", pairs=combined)
    for model in REFERENCE_MODELS:
        passages = chance.normal(size=(N, 8)) + 1.5
        passages /= np.linalg.norm(passages, axis=1, keepdims=True)
        rows = [{"passage_id": f"p{i:02}", "embedding": vector} for i, vector in enumerate(passages)]
        plant(store, embed_passages, rows, model)
        rows = [
            {"query_id": f"q{i:02}", "passage_id": f"p{i:02}", "intent": "qa", "query_embedding": v,
             "positive_id": f"g{i:02}", "positive_embedding": -v}
            for i, v in enumerate(passages)
        ]  # fmt: skip
        plant(store, embed_pairs, rows, model)
        go(store, rank_passages, model=model)
    go(store, mutual_agreement)
    go(store, mine_negatives, alpha=0.75)
    return store


def built(store: LocalStore, before: set[str]) -> tuple[list[str], set[str]]:
    """Datasets that were really made in runs not among ``before``, and all run ids now; asserts that none was paid."""
    runs = query(store, "SELECT run_id, dataset, reused FROM steps WHERE status = 'complete'").to_pylist()
    paid = query(store, "SELECT run_id, name FROM counters WHERE value > 0").to_pylist()
    assert not [row for row in paid if row["name"] in PAID and row["run_id"] not in before]
    made = [run["dataset"] for run in runs if not run["reused"] and run["run_id"] not in before]
    return sorted(made), {run["run_id"] for run in runs}


def finished(there: Airflow, dag: str, **body: Any) -> dict[str, str]:
    """Ask for a run and wait for its end: its state, under no name, and that of each task."""
    asked = there.start(dag, **body)
    assert asked.is_success, asked.text
    address = f"dags/{dag}/dagRuns/{asked.json()['dag_run_id']}"
    run = wait_for(lambda: run if (run := there.ask("GET", address))["state"] in ENDS else {}, PATIENCE_S, address)
    return there.states(run) | {"": run["state"]}


def test_new_levels_by_rest(tmp_path: Path, ranked: LocalStore) -> None:
    known = {run["run_id"] for run in query(ranked, "SELECT run_id FROM steps").to_pylist()}
    environment = os.environ | {"FOUNDRY_STORE": str(ranked.root), "FOUNDRY_CACHE": str(tmp_path / "no-weights")}
    with ui(tmp_path / "airflow", environment) as there:
        there.resume("build_triplets", "build_level")
        refused = there.start("build_triplets", conf={"alphas": ["0.75", "1.5"]})
        assert refused.status_code == httpx.codes.BAD_REQUEST
        assert "1.5" in refused.text and "alphas" in refused.text

        tasks = finished(there, "build_triplets", conf={"alphas": ["0.75", "0.65"]})
        assert tasks[""] == "success", tasks
        made, known = built(ranked, known)
        assert made == ["mtt/0.65"], "0.75 was there, and so was all that it is made of"

        tasks = finished(there, "build_level", partition_key="0.8")
        known_tasks = ("", "versions", "mine_negatives", "emit", "fold_lineage", "outcome")
        assert tasks == dict.fromkeys(known_tasks, "success")
        made, known = built(ranked, known)
        assert made == ["mtt/0.8"]

        tasks = finished(there, "build_level", partition_key="0.65")
        assert tasks[""] == "success"
        assert built(ranked, known)[0] == [], "build_triplets had made it"
