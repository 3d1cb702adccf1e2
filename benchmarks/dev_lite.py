"""Does a DevLite rank the checkpoints of a run as the whole development set does, and how much sooner?

Three judged sets stand for three intents in one corpus. Half of each set's queries train one embedder; the others are
the whole development set, and ``pool_passages`` and ``sample_queries`` make its DevLite. Both score every checkpoint by
the function that training chooses by; what that takes is told in seconds of the processor, which other work on the
machine does not change much.

Source: DMRetriever, Algorithm 4 and Table 9.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from judged_sets import JudgedSet, Pair, Query, needed
from measure import finish, show
from scipy.stats import kendalltau

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.evaluation.judged_folder import CORPUS, QUERIES, JudgedFolder
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.judged_dev import dev_set
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.loop import Task, run
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import plan_schedule
from pipeline_tasks.training.validation import validate

DATA = Path("../shared/data/ir")
INTENTS = {"cranfield": "qadoc", "climate_fever_local": "factcheck", "snli_test_retrieval": "nli"}
MODELS = ("bm25", "all-minilm-l6-v2", "bge-small-en-v1.5")
NAME = "three"


def of_set(name: str, path: Path, options: argparse.Namespace) -> JudgedSet:
    """Pairs of one half of a set's queries, the others as judged queries, and a corpus that holds what these judge."""
    found = JudgedFolder(path)
    relevant = {q: {p: grade for p, grade in of.items() if grade > 0} for q, of in found.judgements().items()}
    asked = [row for row in found.rows(QUERIES) if relevant.get(row["_id"])]
    asked.sort(key=lambda row: unit_hash("dev_lite", row["_id"]))
    half = len(asked) // 2
    train, dev = asked[:half][: options.train], asked[half:][: options.queries]
    named = [passage for row in (*dev, *train) for passage in relevant[row["_id"]]]
    texts = {row["_id"]: " ".join(row["text"].split()[: options.words]) for row in found.rows(CORPUS)}
    kept = list(dict.fromkeys([*named, *texts]))[: max(options.passages, len(set(named)))]
    return JudgedSet(
        {f"{name}/{i}": texts[i] for i in kept},
        [
            Query(r["text"], INTENTS[name], "dev", {f"{name}/{i}": g for i, g in relevant[r["_id"]].items()})
            for r in dev
        ],
        [Pair(row["text"], f"{name}/{max(relevant[row['_id']], key=relevant[row['_id']].get)}") for row in train],
    )


def written(sets: Iterable[JudgedSet], place: Path) -> Path:
    """All sets in one folder in BEIR's layout."""
    place.mkdir()
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for data in sets:
        corpus += [json.dumps({"_id": name, "text": text}) for name, text in data.passages.items()]
        for number, query in enumerate(data.queries):
            name = f"{query.intent}-{number}"
            queries.append(json.dumps({"_id": name, "text": query.text, "intent": query.intent}))
            qrels += [f"{name}\t{passage}\t{grade}" for passage, grade in query.judged.items()]
    for name, lines in ((CORPUS, corpus), (QUERIES, queries), ("qrels.tsv", qrels)):
        (place / name).write_text("\n".join(lines), "utf-8")
    return place


def made(store: Store, step: str, given: dict[str, list[Ref]], **values: Any) -> Ref:
    """The version that a step makes."""
    inputs = {name: [str(ref) for ref in refs] for name, refs in given.items()}
    ref = run_job(store, plan(store, get_step(step), {"set_name": NAME} | values, inputs)).ref
    assert ref is not None
    return ref


def judged(store: Store, place: Path, options: argparse.Namespace) -> dict[str, Inputs]:
    """The whole set and its DevLite, each with its passages."""
    passages = made(store, "read_passages", {}, folder=str(place))
    whole = made(store, "judge_queries", {"passages": [passages]}, folder=str(place))
    given = {"queries": [whole], "passages": [passages]}
    systems = {"size": "", "models": [], "systems": MODELS, "kept": options.depth}
    found = made(store, "evaluate_retriever", given | {"models": [], "embeddings": []}, **systems)
    drawn = {"per_intent": options.per_intent}
    pooled = {"models": MODELS, "depth": options.depth}
    pool = made(store, "pool_passages", given | {"evaluation": [found]}, **drawn, **pooled)
    lite = made(store, "sample_queries", {"queries": [whole], "passages": [pool]}, **drawn)
    sides = {"whole": (whole, passages), "lite": (lite, pool)}
    return {
        side: Inputs({"judged": [Version.open(store, asked)], "judged_passages": [Version.open(store, corpus)]})
        for side, (asked, corpus) in sides.items()
    }


@dataclass
class Scored:
    """One set of development queries: NDCG@10 of every checkpoint, and the processor's seconds that took."""

    rows: Rows
    ndcg: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def score(self, encoder: TrainableEncoder, params: TrainParams) -> float:
        """Of the weights as they are."""
        began = time.process_time()
        self.ndcg.append(validate(encoder, self.rows, params.micro_batch_tokens, autocast=False))
        self.seconds.append(time.process_time() - began)
        return self.ndcg[-1]


def trained(pairs: Examples, dev: dict[str, Examples], options: argparse.Namespace, work: Path) -> dict[str, Scored]:
    """One run, whose checkpoints every set scores."""
    lengths = {"max_query_length": options.tokens, "max_passage_length": options.tokens}
    own = {"temperature": 0.05, "learning_rate": options.rate, "in_batch": True, "evals_per_epoch": options.checkpoints}
    params = TrainParams(size="22m", device="cpu", batch_size=options.batch, **lengths, **own)
    encoder = open_encoder(folder(backbone("22m").name), params)
    data = tokenized(pairs, encoder.tokens, work / "train", **lengths)
    sides = {name: Scored(tokenized(rows, encoder.tokens, work / name, **lengths)) for name, rows in dev.items()}
    schedule, gradients = plan_schedule(data, params), Gradients(encoder, data, params)

    def score(step: int) -> float:
        whole, lite = (sides[name].score(encoder, params) for name in ("whole", "lite"))
        print(f"step {step}: {whole:.4f} on the whole set, {lite:.4f} on its DevLite", flush=True)
        return lite

    def n_tokens(rows: np.ndarray) -> int:
        return int(data.tokens_of[rows].sum())

    steps = [batch.rows for batch in schedule]
    task = Task(steps, lambda _, step: gradients.add(schedule[step], step), score, "dev_lite", n_tokens)
    run(encoder, task, params, work / "run", lambda *_: None, settings().threads)
    return sides


def main() -> None:
    """Print a table of the two sets and of the checkpoints, then the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    parser.add_argument("--checkpoints", type=int, default=15, help="besides the embedder as it came")
    parser.add_argument("--train", type=int, default=400, help="pairs of each set to train on at most")
    parser.add_argument("--queries", type=int, default=100_000, help="of each set's other half at most")
    parser.add_argument("--passages", type=int, default=100_000, help="of each set at most, and all that are judged")
    parser.add_argument("--words", type=int, default=100_000, help="of a passage at most: the others are cut off")
    parser.add_argument("--per-intent", type=int, default=80, help="queries of the DevLite")
    parser.add_argument("--depth", type=int, default=10, help="passages of each model and query in its pool")
    parser.add_argument("--tokens", type=int, default=64, help="of a text at most, in training and scoring")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate")
    options = parser.parse_args()
    if options.quick:
        options.checkpoints, options.train, options.queries, options.passages = 3, 16, 20, 40
        options.per_intent, options.depth = 5, 3
    sets = [of_set(name, needed(options.data / name), options) for name in INTENTS]
    pairs = [(pair.query, data.passages[pair.passage_id]) for data in sets for pair in data.pairs]
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        inputs = judged(LocalStore(work / "store"), written(sets, work / NAME), options)
        layout = layout_of_folder(folder(backbone("22m").name))
        dev = {side: dev_set(given, lambda _: Examples.of())(layout) for side, given in inputs.items()}
        sides = trained(Examples.of(*map(list, zip(*pairs, strict=True))), dev, options, work)
    whole, lite = sides["whole"], sides["lite"]
    rows = [
        [name, len(one.rows.queries), len(one.rows.passages), float(np.mean(one.seconds)), int(np.argmax(one.ndcg))]
        for name, one in sides.items()
    ]
    show("development sets", ("set", "queries", "passages", "s a checkpoint", "best checkpoint"), rows)
    checkpoints = ([str(number), *pair] for number, pair in enumerate(zip(whole.ndcg, lite.ndcg, strict=True)))
    show("NDCG@10 of each checkpoint", ("checkpoint", "whole", "lite"), checkpoints)
    finish(
        {
            "speed_up": round(sum(whole.seconds) / sum(lite.seconds), 2),
            "kendall_tau": round(float(kendalltau(whole.ndcg, lite.ndcg).statistic), 3),
            "checkpoints": len(whole.ndcg),
            "lost_ndcg": round(max(whole.ndcg) - whole.ndcg[int(np.argmax(lite.ndcg))], 4),
        }
    )


if __name__ == "__main__":
    main()
