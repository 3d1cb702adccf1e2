"""The DAGs run the chain; a second training pays for nothing; one new PDF costs its own passages and no more.

The domain is none that the demo shows: a folder of its own, with other intents, prompts, questions and documents.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.demo.airflow import local_run
from pipeline_tasks.demo.gate import check_trained
from pipeline_tasks.demo.recorded_llm import load_recording, serve_recorded
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.runs import corpus_runs
from pipeline_tasks.demo.sample import parse_document
from pipeline_tasks.demo.site import URL_LIST, build_site, serve_site
from pipeline_tasks.demo.writer import Writer
from pipeline_tasks.domains import folder_of
from pipeline_tasks.domains.intents import load_intents

PORT = 18741
FIRST, NEW = ("02", "04", "05", "06", "10"), "08-produce-sprouts.md"
EVERY_INTENT = {"intents_per_passage": 4}
WORK = ("llm_requests", "texts_encoded", "fetched", "optimiser_steps")
LITTLE = {
    "max_query_length": 48,
    "max_passage_length": 64,
    "pretrain_batch_size": 32,
    "finetune_batch_size": 32,
    "pretrain_evals_per_epoch": 1,
    "finetune_evals_per_epoch": 1,
}


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    """Food safety as somebody's own folder, with documents of which one is judged."""
    folder = Path(shutil.copytree(folder_of("food_safety"), tmp_path / "kitchens"))
    for file in (folder / "sample").glob("*.md"):
        if not file.name.startswith(FIRST):
            file.unlink()
    return folder


@pytest.fixture
def in_domain(domain: Path, weights: Path) -> Iterator[dict[str, str]]:
    """What a step's process finds the parts by, the domain and its writer among them."""
    with serve_recorded(load_recording(domain)) as url:
        found = {"OPENAI_BASE_URL": url, "FOUNDRY_CACHE": str(weights), "FOUNDRY_DOMAIN": str(domain)}
        yield os.environ | found


def work_since(store: LocalStore, run_ids: set[str]) -> tuple[dict[str, float], set[str]]:
    """Counters of paid work in runs that are not among ``run_ids``, and all run ids now."""
    rows = query(store, "SELECT s.run_id, c.name, c.value FROM steps s LEFT JOIN counters c USING (run_id)").to_pylist()
    work = dict.fromkeys(WORK, 0.0)
    for row in rows:
        if row["run_id"] not in run_ids and row["name"] in work:
            work[row["name"]] += row["value"]
    return work, {row["run_id"] for row in rows}


def test_chain_reuse_and_refresh(tmp_path: Path, domain: Path, in_domain: dict[str, str]) -> None:
    store, small_site, llm = LocalStore(tmp_path / "store"), tmp_path / "site", load_recording(domain).name
    environment = in_domain | {"FOUNDRY_STORE": str(store.root), "FOUNDRY_ALLOW_HOSTS": "127.0.0.1"}
    new = parse_document(folder_of("food_safety") / "sample" / NEW)
    build_site(domain / "sample", small_site)
    with serve_site(small_site, port=PORT) as site:
        refresh = corpus_runs(Writer(llm, EVERY_INTENT))
        refresh["corpus_refresh"] |= {"source": site + URL_LIST}
        runs = refresh | {
            "build_triplets": {},
            "train_retriever": {"size": "33m", "alphas": ["0.85"], "set_name": "questions"} | LITTLE,
            "evaluate_retriever": {"size": "33m", "set_name": "questions"},
        }
        assert local_run(tmp_path / "airflow", environment, runs) == 0
        first, seen = work_since(store, set())
        assert all(first.values()), first

        before = set(passages(store))
        target = small_site / new.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(render(new))
        build_site(domain / "sample", small_site)
        again = {dag: conf for dag, conf in runs.items() if dag not in refresh}
        assert local_run(tmp_path / "airflow", environment, again | refresh) == 0
        second, _ = work_since(store, seen)
        added = [row for key, row in passages(store).items() if key not in before]
        assert {row["url"] for row in added} == {site + new.path}
        assert second["optimiser_steps"] == 0, "a training again"
        assert second["fetched"] == 1
        assert second["texts_encoded"] == len(added), "by the refresh; the DAGs before it encoded nothing"
        assert 0 < second["llm_requests"] <= 2 * EVERY_INTENT["intents_per_passage"] * len(added)

    scores = query(store, "SELECT system FROM evaluations WHERE metric = 'ndcg@10' AND intent = 'average'").to_pylist()
    systems = {row["system"] for row in scores}
    assert {"33m/untrained", "bm25", "33m/pretrain", "33m/finetune-0.85", "all-mpnet-base-v2"} <= systems
    for dataset in ("all_needs", "all_pairs", "evaluated_queries"):
        found = {row["intent"] for row in query(store, f"SELECT DISTINCT intent FROM {dataset}").to_pylist()}
        assert found == load_intents(domain).keys(), dataset
    assert query(store, "FROM all_triplets").num_rows
    assert check_trained(store)
    assert not query(store, "FROM problems").num_rows


def passages(store: LocalStore) -> dict[str, dict]:
    return {row["passage_id"]: row for row in query(store, "SELECT passage_id, url FROM passages").to_pylist()}
