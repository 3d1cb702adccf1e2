"""What an embedder gains from rankings of its corpus, on judged queries that no training has seen.

Beside the embedder as it came: BM25, reciprocal rank fusions with BM25, contrastive learning (CL) on the same queries
with their evidence and in-batch negatives, that with negatives of a teacher's ranking besides (``info_nce``), and
listwise learning by every objective and teacher that is named. Of the queries to train on some are for development:
where several values are given for alpha, temperature, learning rate, m, k or strategy, every combination is trained,
and the first seed's development queries choose one for each objective and teacher; CL's temperature and rate too. The
judged queries are asked once, at the end; with ``--keywords`` a second time without their keywords. ``--dev-only``
leaves them alone. Models stay in ``--keep``.

Source: BMEmbed, Tables 2 and 3. Its CL has batches of 16; here CL and lists have the same.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from corpus_tasks import Task, task_of
from corpus_trainings import Objective, Setting, Trainings
from judged_sets import SETS
from measure import finish, sd, show
from perturbed_queries import perturbed

from pipeline_tasks.curation.rank_lists import Strategy
from pipeline_tasks.evaluation.geometry import Geometry, geometry
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.statistics import Difference, against, interval
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.params import Precision

DATA = Path("../shared/data/ir")
MEASURES = ("hit@1", "hit@4", "hit@10", "map@10", "ndcg@10")
RANKS, FUSED, U = 10, 200, 40
AS_IT_IS = "as they are"
CL = "CL"
Scores = Mapping[str, np.ndarray]


def settings_of(options: argparse.Namespace) -> dict[str, list[Setting]]:
    """System -> what is tried for it."""
    found = {CL: [Setting("info_nce", "evidence", 0.0, t, r) for t, r in product(options.temperature, options.rate)]}
    for objective, teacher in product(options.objective, options.teacher):
        alphas = {"bm25": options.alpha, "fused": options.fused_alpha}[teacher]
        alphas = alphas if objective == "list_net" else [0.0]
        grid = product(alphas, options.temperature, options.rate, options.m, options.k, options.strategy)
        found[f"{objective} by {teacher}"] = [Setting(objective, teacher, *values) for values in grid]
    return found


def dev_scores(made: Trainings, model: Path) -> np.ndarray:
    """NDCG@10 of every development query, which is to find its evidence."""
    ids = list(made.task.data.passages)
    ranked = top_k(made.dev(model), made.passages(model), RANKS)[0]
    return score([[ids[p] for p in row] for row in ranked], [{p.passage_id: 1} for p in made.task.dev], ["ndcg@10"])[
        "ndcg@10"
    ]


def judged_scores(task: Task, ranked: np.ndarray) -> Scores:
    """Every measure of every judged query."""
    ids = list(task.data.passages)
    found = [[ids[p] for p in row[:RANKS] if p >= 0] for row in ranked]
    return score(found, [query.judged for query in task.data.queries], MEASURES)


def ranked_by(made: Trainings, model: Path, way: str = AS_IT_IS) -> np.ndarray:
    """Places of passages for every judged query, as deep as fusions read them."""
    asked = made.judged(model, way, asked_in(made.task)[way])
    return top_k(asked, made.passages(model), min(FUSED, len(made.task.texts)))[0]


def asked_in(task: Task) -> dict[str, list[str]]:
    """Way -> the judged queries."""
    return {AS_IT_IS: [query.text for query in task.data.queries]} | task.altered


def measure(name: str, made: Trainings, options: argparse.Namespace) -> dict[str, Any]:
    """Choose on development queries, then report on the judged ones."""
    first, *others = options.seeds
    on_dev = {"as it came": dev_scores(made, made.start)}
    best: dict[str, Setting] = {}
    for system, tried in settings_of(options).items():
        for setting in tried:
            on_dev[str(setting)] = dev_scores(made, made.model(setting, first))
            print(f"{system}: {setting}: {on_dev[str(setting)].mean():.4f}", flush=True)
        best[system] = max(tried, key=lambda setting: on_dev[str(setting)].mean())
    found = {"chosen": {s: vars(setting) for s, setting in best.items()}, "dev": told_of_dev(name, made.task, on_dev)}
    if options.dev_only:
        return found
    models = {"base": [made.start]} | {s: [made.model(best[s], seed) for seed in (first, *others)] for s in best}
    return found | judged(name, made, models)


def told_of_dev(name: str, task: Task, on_dev: dict[str, np.ndarray]) -> dict[str, Any]:
    """The table of what was tried."""
    base = on_dev["as it came"]
    rows = [[one, f.mean(), (f - base).mean(), (f - base).std() / len(f) ** 0.5] for one, f in on_dev.items()]
    show(f"{name}: {len(task.dev)} development queries", ("setting", "NDCG@10", "gain", "standard error"), rows)
    return {one: round(float(f.mean()), 4) for one, f in on_dev.items()}


def judged(name: str, made: Trainings, models: dict[str, list[Path]]) -> dict[str, Any]:
    """Every system on the judged queries, those of several seeds by their mean."""
    task = made.task
    found = made.index.search(asked_in(task)[AS_IT_IS], min(FUSED, len(task.texts)))
    keywords = np.where(found.scores > 0, found.indices, -1)
    ranked = {"bm25": [keywords]} | {s: [ranked_by(made, model) for model in each] for s, each in models.items()}
    for system in models:
        ranked[f"rrf(bm25, {system})"] = [fuse([keywords, found], FUSED, U)[0] for found in ranked[system]]
    scores = {s: [judged_scores(task, found) for found in each] for s, each in ranked.items()}
    means = {s: {m: np.mean([one[m] for one in each], axis=0) for m in MEASURES} for s, each in scores.items()}
    shapes = {system: shape(made, of[0]) for system, of in models.items()}
    report(name, task, means, scores, shapes)
    values = {s: m["ndcg@10"] for s, m in means.items()}
    intents = [query.intent for query in task.data.queries]
    return {
        "test": {s: {m: round(float(v.mean()), 4) for m, v in of.items()} for s, of in means.items()},
        "against_base": differences(name, "base", against(values, "base", intents)),
        "against_cl": differences(name, CL, against(values, CL, intents)),
        "geometry": {s: [round(value, 4) for value in found] for s, found in shapes.items()},
        "without_keywords": without_keywords(name, made, models) if task.altered else {},
    }


def shape(made: Trainings, model: Path) -> Geometry:
    """How it lays out the development queries and the corpus."""
    queries, passages = made.dev(model), made.passages(model)
    evidence = np.array([made.task.places[pair.passage_id] for pair in made.task.dev])
    return geometry(queries, evidence, passages, top_k(queries, passages, 1)[1][:, 0])


def differences(name: str, baseline: str, found: Mapping[str, Difference]) -> dict[str, list[float]]:
    """Gains of NDCG@10 over a system, their 95% intervals and p, raised for the number of systems."""
    rows = [[system, d.gain, f"{d.low:+.4f} to {d.high:+.4f}", f"{d.p:.4f}"] for system, d in found.items()]
    show(f"{name}: NDCG@10 over {baseline}", ("system", "gain", "95%", "p"), rows)
    return {s: [round(d.gain, 4), round(d.low, 4), round(d.high, 4), d.p] for s, d in found.items()}


def without_keywords(name: str, made: Trainings, models: dict[str, list[Path]]) -> dict[str, dict[str, float]]:
    """NDCG@10 of every system by how the judged queries are asked; of several seeds the mean."""
    asked = asked_in(made.task)
    found = {way: {"bm25": [made.index.search(queries, RANKS).indices]} for way, queries in asked.items()}
    for way, systems in found.items():
        systems |= {system: [ranked_by(made, model, way) for model in each] for system, each in models.items()}
    left = {
        way: {
            s: round(float(np.mean([judged_scores(made.task, one)["ndcg@10"].mean() for one in each])), 4)
            for s, each in of.items()
        }
        for way, of in found.items()
    }
    show(
        f"{name}: NDCG@10 without keywords",
        ("queries", *left[AS_IT_IS]),
        [[way, *of.values()] for way, of in left.items()],
    )
    return left


def report(name: str, task: Task, means: dict, scores: dict, shapes: dict[str, Geometry]) -> None:
    """The tables."""
    intents = [query.intent for query in task.data.queries]
    rows = []
    for system, of in means.items():
        low, high = interval(of["ndcg@10"], intents)
        spread = sd([one["ndcg@10"].mean() for one in scores[system]])
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
    parser.add_argument("--keep", type=Path, help="folder of models and vectors, to go on from; a new one otherwise")
    parser.add_argument("--dev-only", action="store_true", help="leave the judged queries alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--train", type=int, default=10_000, help="queries to train on at most")
    parser.add_argument("--dev", type=int, default=500, help="of the synthetic queries, those that choose")
    parser.add_argument("--test", type=int, default=10_000, help="judged queries at most")
    parser.add_argument("--passages", type=int, default=1_000_000, help="of the corpus at most, all that are judged")
    parser.add_argument("--objective", nargs="+", choices=get_args(Objective), default=["list_net", "info_nce"])
    parser.add_argument("--teacher", nargs="+", choices=("bm25", "fused"), default=["bm25"])
    parser.add_argument("--k", type=int, nargs="+", default=[1000])
    parser.add_argument("--m", type=int, nargs="+", default=[9])
    parser.add_argument("--strategy", nargs="+", choices=get_args(Strategy), default=["doubling"])
    parser.add_argument("--first", type=int, default=3, help="ranks of the first interval; 0: as the strategy has it")
    parser.add_argument("--skip", type=int, default=3, help="with info_nce: ranks that give no negatives")
    parser.add_argument("--n-lists", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.45, 1.0, 2.0, 5.0], help="for BM25's scores")
    parser.add_argument("--fused-alpha", type=float, nargs="+", default=[0.005], help="for sums of 1 / (40 + rank)")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--rate", type=float, nargs="+", default=[2e-5, 5e-5], help="learning rates")
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32")
    parser.add_argument("--keywords", type=int, default=0, help="of each judged query that are masked and replaced")
    options = parser.parse_args()
    found = {}
    for name in options.sets:
        task = task_of(name, options.data / name, options)
        with tempfile.TemporaryDirectory() as place:
            made = Trainings(task, options, (options.keep or Path(place)) / name)
            made.place.mkdir(parents=True, exist_ok=True)
            if options.keywords:
                queries, encode = asked_in(task)[AS_IT_IS], made.encoder(made.start).encode_queries
                made.task = replace(task, altered=perturbed(queries, task.texts, options.keywords, encode))
            found[name] = measure(name, made, options)
    finish(found)


if __name__ == "__main__":
    main()
