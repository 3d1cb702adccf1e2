"""A small store with two trained versions of a model, each evaluated, and texts that try to run as code."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks import datasets as d
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit
from pipeline_tasks.training.curves import trajectory
from pipeline_tasks.training.curves.curve import FILE, TRAINING_CURVE
from tests.core.lineage import toy
from tests.core.lineage.conftest import answer
from tests.stores import put

SCRIPT = "<script>alert('query')</script> & \"quotes\""
IMAGE = "<img src=x onerror=alert(1)>"
INTENTS = ("nli", "qa")
N_QUERIES = 24
NEEDED = "1" * 64
"""The answer that every need of the toy chain stands in."""
GAINS = {"33m/untrained": 0.0, "bm25": 0.1, "all-minilm-l6-v2": 0.2, IMAGE: 0.15}


class Trained(StepParams):
    """From which model, and at which difficulty."""

    backbone: dict[str, str] = {"name": "all-minilm-l6-v2"}
    alpha: float = 0.75


@step(
    reads={"triplets": From(d.TRIPLETS, dataset="mtt/0.75")}, writes=None, kind="reduce", dataset="model/33m/finetune"
)
def toy_train(inputs: Inputs, params: Trained, run: Run) -> Any:
    """A model of nothing but its curve, and of what its sampler decided."""
    steps = range(9)
    columns = {
        "optimiser_step": steps,
        "epoch": [i / 8 for i in steps],
        "n_rows": [4 * i for i in steps],
        "loss": [None, *(1 / i for i in steps[1:])],
        "learning_rate": [None, *(1e-5 for _ in steps[1:])],
        "dev_score": [0.5 + i / 100 if i % 4 == 0 else None for i in steps],
    }
    pq.write_table(pa.table(columns, schema=TRAINING_CURVE.arrow), run.scratch / FILE)
    spent = {
        "sources": ["dm", "gd"],
        "targets": ["dev"],
        "drawn": [6, 2],
        "gradients": 12,
        "deciding": 4,
        "tokens": 400,
        "deciding_tokens": 100,
    }
    decided = (0, [0.5, 0.5], []), (4, [0.75, 0.25], [[0.02], [-0.01]])
    trajectory.save(
        [
            {
                "sources": ["dm", "gd"],
                "targets": ["dev"],
                "step": step,
                "probabilities": p,
                "influences": found,
                **spent,
            }
            for step, p, found in decided
        ],
        run.scratch,
    )
    return run.scratch


def mine(store: LocalStore, *addresses: str) -> None:
    """The chain over these addresses, to triplets."""
    toy.corpus(store, *addresses)
    answer(store, NEEDED, 1000, 0.5)
    for one in (toy.toy_needs, toy.toy_pairs):
        toy.make(store, one)
    for model in toy.MODELS:
        toy.make(store, toy.toy_rank, model=model)
    toy.make(store, toy.toy_label)
    toy.make(store, toy.toy_triplets, alpha="0.75")


def train(store: LocalStore, *addresses: str) -> Ref:
    """The whole chain over these addresses, to a model."""
    mine(store, *addresses)
    return toy.make(store, toy_train).ref


def evaluate(store: LocalStore, model: Ref, gain: float) -> None:
    """Scores of the model, which is so much better than its start, and of others, on the same queries."""
    systems = {name: (extra, "") for name, extra in GAINS.items()} | {"33m/finetune-0.75": (gain, str(model))}
    put(store, d.EVALUATIONS, rows_of(systems, N_QUERIES), dataset="eval/judged", models=model, passages=corpus(store))


def corpus(store: LocalStore) -> Ref:
    """The passages that are ranked, one of them hostile."""
    facts = {"doc_id": "d", "url": "u", "title": SCRIPT, "page": 1}
    texts = {"p-hostile": IMAGE, "p-d-a": "passage of d-a"}
    return put(
        store, d.PASSAGES, [facts | {"passage_id": i, "text": text} for i, text in texts.items()], dataset="chunks"
    )


def compare(store: LocalStore, old: Ref, new: Ref) -> None:
    """Both versions in one evaluation, beside nothing but what they began as."""
    versions = {f"33m/finetune-0.75@{ref.version}": (gain, str(ref)) for ref, gain in ((old, 0.2), (new, 0.1))}
    rows = rows_of({"all-minilm-l6-v2": (0.0, ""), **versions}, N_QUERIES - 8)
    put(store, d.EVALUATIONS, rows, dataset="eval/both", old=old, new=new)


def rows_of(systems: dict[str, tuple[float, str]], n_queries: int) -> list[dict[str, Any]]:
    """Name -> what it adds to each query's score, and its version."""
    return [
        row(name, ref, i, 0.2 + 0.02 * i + extra) for name, (extra, ref) in systems.items() for i in range(n_queries)
    ]


def row(system: str, model_version: str, i: int, score: float) -> dict[str, Any]:
    """One system's answer to one query; the first query and the second passage are hostile."""
    return {
        "evaluation_id": f"{system}/{i}",
        "system": system,
        "model_version": model_version,
        "query_id": f"{i:016x}",
        "intent": INTENTS[i % 2],
        "query": SCRIPT if i == 0 else f"question {i}",
        "n_relevant": 1,
        "scores": [("ndcg@10", score), ("mrr@10", score / 2)],
        "passage_ids": ["p-d-a", "p-hostile", "p-gone"] if i else ["p-hostile"],
        "grades": [2, -2, None] if i else [None],
    }


def build(store: LocalStore) -> tuple[Ref, Ref]:
    """Two versions of the model, evaluated; the later one is the better one."""
    old = train(store, "a", "twin", "bad", "c")
    evaluate(store, old, 0.25)
    new = train(store, "a", "twin", "bad", "c", "e")
    evaluate(store, new, 0.3)
    compare(store, old, new)
    return old, new


def trained(store: LocalStore, stage: str, params: dict[str, Any] | None = None, **inputs: list[str]) -> str:
    """A model of size 22m without files, made with these parameters, and from these if any."""
    params = params or {}
    made = Manifest(
        dataset=f"model/22m/{stage}", id=short_id(stage, params, inputs), step="by_hand", code_version="1",
        rows_schema=FILES, key="", params=params, inputs=inputs, rows=0, parts=[],
    )  # fmt: skip
    commit(store, made)
    return str(made.ref)
