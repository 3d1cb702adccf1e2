"""The whole chain on little data, step by step in one process."""

import os
from pathlib import Path

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore

MODELS = ("all-minilm-l6-v2", "bge-small-en-v1.5")
HOLD_OUT = {"test_fraction": 0.45, "dev_fraction": 0.1}
CHUNKS = {"max_tokens": 128}
NEEDS = {"sample_rate": 0.4, "intents_per_passage": 2}
SHORT = {
    "max_query_length": 48,
    "max_passage_length": 64,
    "batch_size": 32,
    "evals_per_epoch": 1,
    "checkpoint_every_steps": 1,
}


def run_chain(store: LocalStore, source: str, llm: str) -> None:
    def run(name: str, inputs: dict[str, list[str]] | None = None, **params: object) -> str:
        return str(run_job(store, plan(store, get_step(name), params, inputs)).ref)

    run("list_urls", source=source, part_rows=3)
    run("crawl", part_rows=3, delay_s=0)
    run("extract_text")
    run("sketch_documents")
    run("cluster_documents")
    run("near_duplicate_documents")
    run("hold_out_documents", **HOLD_OUT)
    chunks = run("chunk_passages", **CHUNKS)
    embeddings = run("embed_passages", {"passages": [chunks]}, model=MODELS[0])
    duplicates = run("cluster_passages", {"embeddings": [embeddings]}, model=MODELS[0])
    run("near_duplicate_passages", {"chunks": [chunks], "duplicates": [duplicates]})
    run("write_needs", llm=llm, **NEEDS)
    run("write_pairs", llm=llm)
    run("combine_pairs")
    run("decontaminate_pairs")
    for model in MODELS:
        run("embed_passages", model=model)
        run("embed_pairs", model=model)
        run("rank_passages", model=model)
    run("mutual_agreement", models=MODELS)
    stage = run("pretrain", **SHORT)
    stages = [stage]
    for alpha in (0.75, 0.9):
        run("mine_negatives", alpha=alpha, n_negatives=2, models=MODELS[:1])
        stage = run("finetune", {"triplets": [f"mtt/{alpha}"], "init": [stage]}, alpha=alpha, **SHORT)
        stages.append(stage)
    run("judge_queries")
    given = {"models": stages} | by_model("embeddings")
    run("evaluate_retriever", given, models=MODELS, systems=["bm25", f"rrf(bm25,{MODELS[0]})"])


def by_model(dataset: str) -> dict[str, list[str]]:
    return {dataset: [f"{dataset}/{model}" for model in MODELS]}


def in_child(store: Path, source: str, llm: str, environment: dict[str, str]) -> None:
    """The chain in a session of its own, with these variables; what it says is in ``store``.log."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    settings.cache_clear()
    with store.with_suffix(".log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    run_chain(LocalStore(store), source, llm)
