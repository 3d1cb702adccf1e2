"""A tiny store made by real steps, in the datasets' real names and schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipeline_tasks import datasets as d
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.step import From, GrowthParams, NoParams, Step, StepParams, step, tuning
from pipeline_tasks.core.store import LocalStore

MODELS = ("alpha", "beta", "gamma")


class UrlParams(GrowthParams):
    """Which addresses exist."""

    names: tuple[str, ...]
    part_rows: int = tuning(2)


class Ranker(StepParams):
    """Which model ranks."""

    model: str


class Alpha(StepParams):
    """Which build."""

    alpha: str


def filled(schema: RowSchema, **values: Any) -> dict[str, Any]:
    """A row of ``schema`` with ``values`` and nothing else."""
    return {column.name: values.get(column.name) for column in schema.columns}


@step(reads={}, writes=d.URLS, kind="reduce", grows=True, always=True)
def toy_urls(inputs: Inputs, params: UrlParams, run: Run) -> Iterator[pa.Table]:
    """Addresses."""
    rows = [{"url_id": n, "url": f"https://example.org/{n}.pdf", "source": "toy"} for n in params.names]
    yield from difference(run, d.URLS, rows, params.part_rows)


@step(reads={"urls": d.URLS}, writes=d.DOCUMENTS, kind="map")
def toy_documents(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """A document per address; one called bad is refused."""
    out = []
    for row in rows.to_pylist():
        name = row["url_id"]
        if name == "bad":
            run.reject(name, "encrypted", "needs a password")
            continue
        out.append(
            filled(d.DOCUMENTS, doc_id=f"d-{name}", url_id=name, url=row["url"], title=f"Title {name}", text=name)
        )
    run.count("pages", len(out))
    return d.DOCUMENTS.table(out)


@step(
    reads={"documents": d.DOCUMENTS},
    writes=d.DOCUMENTS,
    kind="reduce",
    dataset="distinct_documents",
    keeps=("documents",),
)
def toy_distinct(inputs: Inputs, params: NoParams, run: Run) -> None:
    """Refuses the document called d-twin."""
    run.reject("d-twin", "near_duplicate", "of d-a")


@step(reads={"documents": From(d.DOCUMENTS, dataset="distinct_documents")}, writes=d.PASSAGES, kind="map")
def toy_passages(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """One passage per document."""
    out = [
        filled(d.PASSAGES, passage_id=f"p-{r['doc_id']}", doc_id=r["doc_id"], url=r["url"], title=r["title"], page=3)
        | {"text": f"passage of {r['doc_id']}", "split": "train"}
        for r in rows.to_pylist()
    ]
    return d.PASSAGES.table(out)


@step(reads={"passages": d.PASSAGES}, writes=d.NEEDS, kind="map")
def toy_needs(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """One need per passage."""
    out = []
    for r in rows.to_pylist():
        name = r["passage_id"]
        out.append(
            filled(d.NEEDS, need_id=f"n-{name}", passage_id=name, doc_id=r["doc_id"], intent="qa", need="to know")
        )
        out[-1] |= {"response_id": "1" * 64}
    return d.NEEDS.table(out)


@step(reads={"needs": d.NEEDS}, writes=d.PAIRS, kind="map", dataset="mtp")
def toy_pairs(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """One query per need."""
    out = []
    for r in rows.to_pylist():
        ids = {
            "query_id": f"q-{r['need_id']}",
            "need_id": r["need_id"],
            "passage_id": r["passage_id"],
            "doc_id": r["doc_id"],
        }
        text = {"query": f"what of {r['doc_id']}?", "positive": "an answer", "passage": "source", "split": "train"}
        paid = {"need_response_id": r["response_id"], "response_id": "2" * 64}
        out.append(filled(d.PAIRS, **ids, **text, **paid, intent="qa", origin="dm", positive_id=f"w-{r['need_id']}"))
    return d.PAIRS.table(out)


@step(reads={"pairs": From(d.PAIRS, dataset="mtp")}, writes=d.RANKINGS, kind="map", dataset="rankings/{model}")
def toy_rank(rows: pa.Table, params: Ranker, run: Run) -> pa.Table:
    """Puts the written positive second."""
    return d.RANKINGS.table(
        [
            filled(d.RANKINGS, query_id=r["query_id"], passage_id=r["passage_id"], doc_id=r["doc_id"], intent="qa")
            | {"passage_ids": [r["passage_id"], r["positive_id"], "p-other"], "scores": [0.9, 0.8, 0.5]}
            for r in rows.to_pylist()
        ]
    )


@step(reads={"pairs": From(d.PAIRS, dataset="mtp")}, writes=d.LABELLED, kind="reduce")
def toy_label(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """Accepts all but the query about d-c."""
    out = []
    for r in inputs["pairs"].table().to_pylist():
        if r["doc_id"] == "d-c":
            run.reject(r["query_id"], "no_agreement", "three different passages")
            continue
        vote = {"passage_ids": [r["passage_id"], r["positive_id"]], "positive_rank": 1, "positive_score": 0.9}
        out.append(
            filled(d.LABELLED, query_id=r["query_id"], intent="qa", query=r["query"], split="train", best_model="alpha")
            | {"positive_id": r["passage_id"], "positive": "the passage", "source_passage_id": r["passage_id"]}
            | {"votes": [{"model": m, **vote} for m in MODELS]}
        )
    return d.LABELLED.table(out)


@step(reads={"labelled": d.LABELLED}, writes=d.TRIPLETS, kind="map", dataset="mtt/{alpha}")
def toy_triplets(rows: pa.Table, params: Alpha, run: Run) -> pa.Table:
    """One negative each."""
    return d.TRIPLETS.table(
        [
            filled(d.TRIPLETS, query_id=r["query_id"], intent="qa", query=r["query"], positive_id=r["positive_id"])
            | {"positive_score": 0.9, "negative_ids": ["p-other"], "negatives": ["about something else"]}
            | {"negative_scores": [0.5], "mining_model": "alpha", "positive": "the passage", "split": "train"}
            for r in rows.to_pylist()
        ]
    )


@step(
    reads={"triplets": From(d.TRIPLETS, dataset="mtt/0.75")}, writes=None, kind="reduce", dataset="model/33m/finetune"
)
def toy_model(inputs: Inputs, params: NoParams, run: Run) -> Any:
    """Two files."""
    (run.scratch / "1_Pooling").mkdir(exist_ok=True)
    (run.scratch / "config.json").write_text("{}")
    (run.scratch / "1_Pooling" / "config.json").write_text('{"pooling": "mean"}')
    return run.scratch


@step(
    reads={"model": From(None, dataset="model/33m/finetune")}, writes=d.EVALUATIONS, kind="reduce", dataset="eval/dev"
)
def toy_evaluate(inputs: Inputs, params: NoParams, run: Run) -> Iterator[pa.Table]:
    """Two queries of one intent, one of another."""
    for query_id, intent, score in (("q1", "qa", 0.25), ("q2", "qa", 0.75), ("q3", "nli", 0.9)):
        row = filled(d.EVALUATIONS, evaluation_id=query_id, system="33m/finetune", query_id=query_id, intent=intent)
        yield d.EVALUATIONS.table([row | {"scores": [("ndcg@10", score)]}])


@step(reads={"urls": d.URLS}, writes=d.URLS, kind="reduce", dataset="broken")
def toy_broken(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """Fails."""
    raise ValueError("no such luck")


def make(store: LocalStore, step: Step, **values: Any) -> Outcome:
    """Run ``step`` on the latest of its default inputs."""
    return run_job(store, plan(store, step, values))


def corpus(store: LocalStore, *names: str) -> None:
    """``documents`` to ``passages`` for these addresses."""
    make(store, toy_urls, names=names)
    for one in (toy_documents, toy_distinct, toy_passages):
        make(store, one)


def chain(store: LocalStore, *names: str) -> None:
    """Everything from the addresses to the evaluation, and the two answers that were paid for."""
    corpus(store, *names)
    make(store, toy_needs)
    make(store, toy_pairs)
    for model in MODELS:
        make(store, toy_rank, model=model)
    make(store, toy_label)
    for alpha in ("0.65", "0.75"):
        make(store, toy_triplets, alpha=alpha)
    make(store, toy_model)
    make(store, toy_evaluate)
