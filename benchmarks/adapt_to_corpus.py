"""What an embedder gains from keyword rankings of its corpus, on judged queries that no training has seen.

Beside the embedder as it came: BM25, reciprocal rank fusions with BM25, and contrastive learning (CL) on the same
queries with their evidence and in-batch negatives. Of the queries to train on some are for development: where several
values are given for alpha, temperature, learning rate, m, k or strategy, every combination is trained on one ranking of
the corpus, and the first seed's development queries choose; CL's learning rate too. The judged queries are asked once,
at the end; with ``--keywords`` a second time without their keywords.

Source: BMEmbed, Tables 2 and 3. Its CL has batches of 16; here CL and lists have the same.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
from corpus_tasks import Task, task_of
from judged_sets import SETS
from measure import finish, show
from perturbed_queries import perturbed

from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.rank_lists import Strategy, interval_ends, sample
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.evaluation.geometry import Geometry, of_sample
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.statistics import against, interval
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.bm25 import Bm25, Found
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.encoders import load_encoder
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.adapt_to_corpus import AdaptToCorpusParams
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.export import export
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.trainer import train

DATA = Path("../shared/data/ir")
MEASURES = ("hit@1", "hit@4", "hit@10", "map@10", "ndcg@10")
RANKS, FUSED, U = 10, 200, 40
AS_IT_IS = "as they are"
LENGTHS = {"max_query_length": 64, "max_passage_length": 192}


@dataclass(frozen=True)
class Setting:
    """What is chosen on development queries."""

    alpha: float
    temperature: float
    learning_rate: float
    m: int
    k: int
    strategy: Strategy


def lists_of(task: Task, found: Found, setting: Setting, options: argparse.Namespace) -> Examples:
    """Training rows: lists of each query's BM25 ranking, as ``sample_rank_lists`` draws them."""
    texts, rows = task.texts, []
    for pair, places, scores in zip(task.train, found.indices, found.scores, strict=True):
        shared = scores[: setting.k][scores[: setting.k] > 0]
        ends = interval_ends(shared, setting.m, setting.strategy, "rank", options.first)
        for ranks in sample(pair.query, ends, options.n_lists) if len(shared) > 1 else []:
            rows.append((pair.query, [texts[p] for p in places[ranks]], scores[ranks].tolist()))
    queries, passages, targets = zip(*rows, strict=True)
    return Examples.of(queries, [own[0] for own in passages], [own[1:] for own in passages], targets=targets)


def cl_rows(task: Task) -> Examples:
    """Training rows of contrastive learning: each query with its evidence."""
    return Examples.of([p.query for p in task.train], [task.data.passages[p.passage_id] for p in task.train])


def trained(rows: Examples, params: TrainParams, out: Path) -> Path:
    """Train from the embedder as it came, and export to ``out``; the last step's weights, for none is chosen here."""
    start = folder(backbone("22m").name)
    with tempfile.TemporaryDirectory() as work:
        result = train(rows, Examples.of(), start, params, Path(work), threads=settings().threads)
    layout = replace(layout_of_folder(start), max_length=LENGTHS["max_passage_length"])
    export(result.encoder, out, card={"name": out.name}, layout=layout)
    return out


def encoder_of(model: Path) -> Encoder:
    """A folder's embedder."""
    return load_encoder(model, settings().cache, settings().threads)


@dataclass(frozen=True)
class Vectors:
    """Of one embedder: judged queries by how they are asked, development queries, passages."""

    queries: dict[str, np.ndarray]
    dev: np.ndarray
    passages: np.ndarray


def vectors(task: Task, model: Path) -> Vectors:
    """Encode everything once."""
    encoder = encoder_of(model)
    ways = {AS_IT_IS: [query.text for query in task.data.queries]} | task.altered
    asked = {way: encoder.encode_queries(queries) for way, queries in ways.items()}
    return Vectors(asked, encoder.encode_queries([p.query for p in task.dev]), encoder.encode_passages(task.texts))


def dev_score(task: Task, found: Vectors) -> float:
    """NDCG@10 of the development queries, each of which is to find its evidence."""
    ids = list(task.data.passages)
    ranked = top_k(found.dev, found.passages, RANKS)[0]
    scores = score([[ids[p] for p in row] for row in ranked], [{p.passage_id: 1} for p in task.dev], ["ndcg@10"])
    return float(scores["ndcg@10"].mean())


def test_scores(task: Task, ranked: np.ndarray) -> dict[str, np.ndarray]:
    """Every measure of every judged query."""
    ids = list(task.data.passages)
    found = [[ids[p] for p in row[:RANKS] if p >= 0] for row in ranked]
    return score(found, [query.judged for query in task.data.queries], MEASURES)


def ranked_by(found: Vectors, way: str = AS_IT_IS) -> np.ndarray:
    """Places of passages for every judged query, as deep as fusions read them."""
    return top_k(found.queries[way], found.passages, min(FUSED, len(found.passages)))[0]


def adapting(setting: Setting, seed: int, options: argparse.Namespace) -> TrainParams:
    """The listwise training of a setting."""
    objective = {"name": options.objective} | ({"alpha": setting.alpha} if options.objective == "list_net" else {})
    own = {"temperature": setting.temperature, "learning_rate": setting.learning_rate, "objective": objective}
    return AdaptToCorpusParams(size="22m", device="cpu", seed=seed, batch_size=options.batch, **LENGTHS, **own)


def contrastive(learning_rate: float, seed: int, options: argparse.Namespace) -> TrainParams:
    """CL with the temperature of the scouting run in the set's README."""
    own = {"temperature": 0.05, "learning_rate": learning_rate, "in_batch": True}
    return TrainParams(size="22m", device="cpu", seed=seed, batch_size=options.batch, **LENGTHS, **own)


def measure(name: str, task: Task, options: argparse.Namespace, place: Path) -> dict:
    """Choose on development queries, then report on the judged ones."""
    index = Bm25(task.texts, 1.2, 0.75)
    rankings = index.search([pair.query for pair in task.train], min(max(options.k), len(task.texts)))

    def listwise(setting: Setting, seed: int) -> Vectors:
        lists = lists_of(task, rankings, setting, options)
        return vectors(task, trained(lists, adapting(setting, seed, options), place / "lists"))

    def pairwise(rate: float, seed: int) -> Vectors:
        return vectors(task, trained(cl_rows(task), contrastive(rate, seed, options), place / "cl"))

    base = vectors(task, folder(backbone("22m").name))
    grid = product(options.alpha, options.temperature, options.rate, options.m, options.k, options.strategy)
    tried = {setting: listwise(setting, options.seeds[0]) for setting in (Setting(*values) for values in grid)}
    tried_cl = {rate: pairwise(rate, options.seeds[0]) for rate in options.rate}
    on_dev = {str(s): dev_score(task, v) for s, v in [("as it came", base), *tried.items(), *tried_cl.items()]}
    show(f"{name}: NDCG@10 on {len(task.dev)} development queries", ("setting", "NDCG@10"), on_dev.items())
    best = max(tried, key=lambda setting: dev_score(task, tried[setting]))
    rate = max(tried_cl, key=lambda rate: dev_score(task, tried_cl[rate]))
    adapted = [tried[best], *(listwise(best, seed) for seed in options.seeds[1:])]
    cl = [tried_cl[rate], *(pairwise(rate, seed) for seed in options.seeds[1:])]
    keywords = index.search([query.text for query in task.data.queries], min(FUSED, len(task.texts))).indices
    plain = {"base": [base], "cl": cl, "adapted": adapted}
    ranked = {"bm25": [keywords]} | {system: [ranked_by(v) for v in each] for system, each in plain.items()}
    for system in ("base", "adapted"):
        ranked[f"rrf({system})"] = [fuse([keywords, found], FUSED, U)[0] for found in ranked[system]]
    scores = {s: [test_scores(task, found) for found in each] for s, each in ranked.items()}
    means = {s: {m: np.mean([one[m] for one in each], axis=0) for m in MEASURES} for s, each in scores.items()}
    evidence = np.array([task.places[pair.passage_id] for pair in task.dev])
    shapes = {system: of_sample(each[0].dev, evidence, each[0].passages) for system, each in plain.items()}
    report(name, task, means, scores, shapes)
    left = without_keywords(name, task, index, plain) if task.altered else {}
    intents = [query.intent for query in task.data.queries]
    apart = against({s: m["ndcg@10"] for s, m in means.items()}, "base", intents)
    return {
        "chosen": vars(best) | {"cl_learning_rate": rate},
        "dev": on_dev,
        "test": {s: {m: round(float(v.mean()), 4) for m, v in of.items()} for s, of in means.items()},
        "against_base": {s: [round(d.gain, 4), round(d.low, 4), round(d.high, 4), d.p] for s, d in apart.items()},
        "geometry": {s: [round(value, 4) for value in found] for s, found in shapes.items()},
        "without_keywords": left,
    }


def without_keywords(name: str, task: Task, index: Bm25, plain: dict[str, list[Vectors]]) -> dict[str, dict]:
    """NDCG@10 of every system by how the judged queries are asked; of several seeds the mean."""
    asked = {AS_IT_IS: [query.text for query in task.data.queries]} | task.altered
    found = {way: {"bm25": [index.search(queries, RANKS).indices]} for way, queries in asked.items()}
    for way, systems in found.items():
        systems |= {system: [ranked_by(each, way) for each in seeds] for system, seeds in plain.items()}
    left = {
        way: {s: float(np.mean([test_scores(task, one)["ndcg@10"].mean() for one in each])) for s, each in of.items()}
        for way, of in found.items()
    }
    rows = [[way, *of.values()] for way, of in left.items()]
    show(f"{name}: NDCG@10 without keywords", ("queries", *left[AS_IT_IS]), rows)
    return {way: {system: round(value, 4) for system, value in of.items()} for way, of in left.items()}


def report(name: str, task: Task, means: dict, scores: dict, shapes: dict[str, Geometry]) -> None:
    """The tables."""
    intents = [query.intent for query in task.data.queries]
    rows = []
    for system, of in means.items():
        low, high = interval(of["ndcg@10"], intents)
        spread = float(np.std([one["ndcg@10"].mean() for one in scores[system]]))
        rows.append([system, *(f"{100 * of[m].mean():.1f}" for m in MEASURES), f"{low:.3f} to {high:.3f}", spread])
    title = f"{name}: {len(intents)} judged queries, {len(task.texts)} passages, {len(task.train)} queries to train on"
    show(title, ("system", *MEASURES, "95% of NDCG", "sd over seeds"), rows)
    columns = ("embedder", "alignment", "over nearest", "uniformity")
    show(f"{name}: geometry", columns, ([system, *(f"{v:.3f}" for v in found)] for system, found in shapes.items()))


def main() -> None:
    """Run the sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--train", type=int, default=10_000, help="queries to train on at most")
    parser.add_argument("--dev", type=int, default=300, help="of the synthetic queries, those that choose")
    parser.add_argument("--test", type=int, default=10_000, help="judged queries at most")
    parser.add_argument("--passages", type=int, default=1_000_000, help="of the corpus at most, all that are judged")
    parser.add_argument("--k", type=int, nargs="+", default=[1000])
    parser.add_argument("--m", type=int, nargs="+", default=[9])
    parser.add_argument("--strategy", nargs="+", choices=get_args(Strategy), default=["doubling"])
    parser.add_argument("--first", type=int, default=3, help="ranks of the first interval; 0: as the strategy has it")
    parser.add_argument("--n-lists", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--objective", choices=("list_net", "list_mle"), default="list_net")
    parser.add_argument("--alpha", type=float, nargs="+", default=[1.0, 2.0, 5.0])
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--rate", type=float, nargs="+", default=[2e-5, 5e-5], help="learning rates")
    parser.add_argument("--keywords", type=int, default=0, help="of each judged query that are masked and replaced")
    options = parser.parse_args()
    found = {}
    for name in options.sets:
        task = task_of(name, options.data / name, options)
        if options.keywords:
            queries, base = [query.text for query in task.data.queries], encoder_of(folder(backbone("22m").name))
            altered = perturbed(queries, task.texts, options.keywords, base.encode_queries)
            task = replace(task, altered=altered)
        with tempfile.TemporaryDirectory() as place:
            found[name] = measure(name, task, options, Path(place))
    finish(found)


if __name__ == "__main__":
    main()
