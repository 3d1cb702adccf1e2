"""A store from four sample PDFs to `mtt`: ``python -m tests.containers.small_store FOLDER``.

The steps make all of it on this machine, but for the queries, which are words of the passages.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import NEEDS, PAIRS
from pipeline_tasks.demo.site import URL_LIST, build_site, serve_site
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.synthesis.prompting.focus import focus_of
from tests.stores import put, rows

PORT = 18744
ALPHAS = (0.65, 0.75, 0.85)
TITLE = "<img src=x onerror=\"document.title='stolen'\">"
"""Of one of the PDFs."""
TRAIN, TEST, TITLED = ("a-04-shutters-and-zones", "b-power-outage"), "a-08-earthquake-drop-cover", "b-lightning"
QUERY_WORDS = 10


def small_store(folder: Path) -> None:
    """Passages, pairs, rankings, labels and three levels of triplets, in ``<folder>/store``."""
    store = LocalStore(folder / "store")
    site = _site(folder)

    def run(name: str, inputs: dict[str, list[str]] | None = None, **params: object) -> str:
        return str(run_job(store, plan(store, get_step(name), params, inputs)).ref)

    with serve_site(site, port=PORT) as address:
        run("list_urls", source=address + URL_LIST)
        run("crawl", delay_s=0)
    for name in ("extract_text", "sketch_documents", "cluster_documents", "near_duplicate_documents"):
        run(name)
    run("hold_out_documents", judged=False, test_fraction=0.3)  # one of four, by its bytes: TEST
    chunks = run("chunk_passages")
    duplicates = run("cluster_passages", {"embeddings": [run("embed_passages", {"passages": [chunks]})]})
    passages = run("near_duplicate_passages", {"chunks": [chunks], "duplicates": [duplicates]})
    needs = put(store, NEEDS, passages=Ref.parse(passages))
    pairs = list(_pairs(rows(store, "passages")))
    written = put(store, PAIRS, pairs, dataset="mtp/dm", needs=needs)
    combined = put(store, PAIRS, pairs, dataset="mtp/combined", dm=written)
    put(store, PAIRS, pairs, dataset="mtp", pairs=combined)
    for model in REFERENCE_MODELS:
        for name in ("embed_passages", "embed_pairs", "rank_passages"):
            run(name, model=model)
    run("mutual_agreement")
    for alpha in ALPHAS:
        run("mine_negatives", alpha=alpha)


def _site(folder: Path) -> Path:
    sample, site = folder / "sample", folder / "site"
    sample.mkdir()
    for name in (*TRAIN, TEST):
        shutil.copy(domain_folder() / "sample" / f"{name}.md", sample)
    lines = (domain_folder() / "sample" / f"{TITLED}.md").read_text("utf-8").splitlines(keepends=True)
    lines = [f"title = {json.dumps(TITLE)}\n" if line.startswith("title = ") else line for line in lines]
    (sample / f"{TITLED}.md").write_text("".join(lines), "utf-8")
    build_site(sample, site)
    return site


def _pairs(passages: list[dict]) -> Iterator[dict]:
    for passage in passages:
        told = focus_of(passage["text"], passage["passage_id"])
        same = {name: passage[name] for name in ("passage_id", "doc_id", "split")}
        yield same | {
            "query_id": passage["passage_id"][::-1],
            "intent": "qa",
            "query": " ".join(told.split()[:QUERY_WORDS]),
            "positive_id": f"w{passage['passage_id'][1:]}",
            "positive": told,
            "passage": passage["text"],
            "origin": "dm",
        }


if __name__ == "__main__":
    small_store(Path(sys.argv[1]))
