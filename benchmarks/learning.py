"""What training adds on judged queries of other documents, beside systems that were not trained and a plain script.

The trainings are cumulative, each from the start: pairs of query and source passage; generated positives too; then from
the best of these, mined hard negatives; the same with what the fused reference models make of them. Which one counts is
chosen on the development queries; what is told is NDCG@10 on the test queries, graded, mean over intents.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from judged_sets import SETS, JudgedSet, p_value, smaller
from measure import finish, show

from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import REFERENCE_MODELS, folder
from pipeline_tasks.retrieval import bm25
from pipeline_tasks.retrieval.encoders import load_encoder, open_encoder
from pipeline_tasks.retrieval.fusion import fuse, fused_score
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.export import export
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.trainer import train

DATA = Path("../shared/data/ir")
DEPTH, N_NEGATIVES, ALPHA = 200, 9, 0.95
LENGTHS = {"max_query_length": 64, "max_passage_length": 192}
STAGES = ("pairs", "positives", "negatives", "distilled")
Encode = Callable[[Sequence[str], bool], np.ndarray]


@dataclass(frozen=True)
class References:
    """Rankings [q, depth] of the corpus by BM25 and the reference models, for the judged queries and for the pairs."""

    judged: dict[str, np.ndarray]
    pairs: dict[str, np.ndarray]
    cosines: np.ndarray
    """[pairs, depth] those of the first reference model, in its order."""


def references(data: JudgedSet) -> References:
    """Rank everything once."""
    texts = list(data.passages.values())
    sides = {"judged": [query.text for query in data.queries], "pairs": [pair.query for pair in data.pairs]}
    depth = min(DEPTH, len(texts))
    found = {side: {"bm25": bm25.top_k(asked, texts, depth)[0]} for side, asked in sides.items()}
    cosines = np.zeros(0)
    for name in REFERENCE_MODELS:
        encoder = open_encoder(name)
        passages = encoder.encode_passages(texts)
        for side, asked in sides.items():
            ranked, scores = top_k(encoder.encode_queries(asked), passages, depth)
            found[side][name] = ranked
            if side == "pairs" and name == REFERENCE_MODELS[0]:
                cosines = scores
    every = list(found["judged"].values())
    found["judged"][f"rrf({','.join(found['judged'])})"] = fuse(every, depth)[0]
    return References(found["judged"], found["pairs"], cosines)


def negatives(data: JudgedSet, ranked: References) -> list[list[str]]:
    """Per pair up to nine passages of the training documents, the first reference model's best below the source."""
    ids = list(data.passages)
    trained_on = {pair.passage_id for pair in data.pairs}
    answers: dict[str, set[str]] = {}
    for pair in data.pairs:
        answers.setdefault(pair.query, set()).add(pair.passage_id)
    found = []
    order = ranked.pairs[REFERENCE_MODELS[0]]
    for pair, row, cosines in zip(data.pairs, order, ranked.cosines, strict=True):
        at_positive = next((c for p, c in zip(row, cosines, strict=True) if ids[p] == pair.passage_id), cosines[-1])
        close = (ids[p] for p, c in zip(row, cosines, strict=True) if c < ALPHA * at_positive)
        found.append([i for i in close if i in trained_on and i not in answers[pair.query]][:N_NEGATIVES])
    return found


def training_set(data: JudgedSet, stage: str, ranked: References) -> Examples:
    """The rows of one of the cumulative stages."""
    rows = [(pair.query, data.passages[pair.passage_id]) for pair in data.pairs]
    if stage == "positives":
        rows += [(pair.query, pair.positive) for pair in data.pairs if pair.positive]
    queries, positives = zip(*rows, strict=True)
    if stage in ("pairs", "positives"):
        return Examples.of(queries, positives)
    mined = negatives(data, ranked)
    targets = None
    if stage == "distilled":
        place = {name: i for i, name in enumerate(data.passages)}
        rankings = list(ranked.pairs.values())
        wanted = [[pair.passage_id, *ids] for pair, ids in zip(data.pairs, mined, strict=True)]
        widest = max(map(len, wanted))
        columns = [np.array([place[ids[n]] if n < len(ids) else -1 for ids in wanted]) for n in range(widest)]
        scores = np.stack([fused_score(rankings, column) for column in columns], axis=1)
        targets = [row[: len(ids)].tolist() for row, ids in zip(scores, wanted, strict=True)]
    texts = [[data.passages[name] for name in ids] for ids in mined]
    return Examples.of(queries, positives, texts, targets=targets)


def params_of(stage: str, seed: int, epochs: int) -> TrainParams:
    """Those of the size, with texts cut as by the plain script; a teacher's scores are sums of reciprocal ranks."""
    objective = {"name": "kl_distillation", "teacher_temperature": 0.005} if stage == "distilled" else "info_nce"
    chosen = {"objective": objective, "in_batch": True, "seed": seed, "epochs": epochs, "evals_per_epoch": 1}
    return TrainParams(size="22m", device="cpu", **LENGTHS, **chosen)


def dev_set(data: JudgedSet) -> Examples:
    """The development queries, each with its best passage, over all passages judged for any of them."""
    queries = [query for query in data.queries if query.split == "dev"]
    best = [max(query.judged, key=query.judged.__getitem__) for query in queries]
    judged = {data.passages[name] for query in queries for name in query.judged}
    return Examples.of([q.text for q in queries], [data.passages[name] for name in best], others=sorted(judged))


def ranked_by(data: JudgedSet, encode: Encode) -> np.ndarray:
    """Positions [q, 10] of all judged queries."""
    queries = encode([query.text for query in data.queries], True)
    return top_k(queries, encode(list(data.passages.values()), False), 10)[0]


def trained(
    data: JudgedSet, stage: str, start: Path, ranked: References, seed: int, epochs: int, out: Path
) -> np.ndarray:
    """Train one stage by the pipeline's own trainer, export it to ``out``, and rank with what was exported."""
    rows, layout = training_set(data, stage, ranked), layout_of_folder(start)
    threads = settings().threads
    with tempfile.TemporaryDirectory() as work:
        result = train(rows, dev_set(data), start, params_of(stage, seed, epochs), Path(work), threads=threads)
    layout = replace(layout, max_length=LENGTHS["max_passage_length"])
    export(result.encoder, out, card={"name": stage}, layout=layout)
    encoder = load_encoder(out, out.parent, threads)
    return ranked_by(
        data, lambda texts, asked: encoder.encode_queries(texts) if asked else encoder.encode_passages(texts)
    )


def plain(data: JudgedSet, seed: int) -> np.ndarray:
    """The plain script."""
    from plain_training import train_plain, vectors

    pairs = [(pair.query, data.passages[pair.passage_id]) for pair in data.pairs]
    model = train_plain(folder(backbone("22m").name), pairs, seed, settings().threads)
    return ranked_by(data, lambda texts, _: vectors(*model, texts).numpy())


def runs(data: JudgedSet, ranked: References, stages: Sequence[str], seed: int, epochs: int) -> dict[str, np.ndarray]:
    """The plain script and every stage with one seed; the later stages go on from the better of the first two."""
    found = {"plain script": plain(data, seed)}
    untouched = folder(backbone("22m").name)
    with tempfile.TemporaryDirectory() as place:
        out = {stage: Path(place) / stage for stage in stages}
        for stage in stages:
            first = [name for name in ("pairs", "positives") if name in found and stage not in ("pairs", "positives")]
            before = max(first, key=lambda name: mean(data, found[name], "dev"), default="")
            start = out[before] if before else untouched
            found[stage] = trained(data, stage, start, ranked, seed, epochs, out[stage])
    return found


def mean(data: JudgedSet, ranked: np.ndarray, split: str) -> float:
    """NDCG@10, mean over intents."""
    return float(data.scores(ranked, split) @ data.weights(split))


def learn(name: str, data: JudgedSet, stages: Sequence[str], seeds: int, epochs: int) -> dict[str, float]:
    """Measure every system on one set, show the table, and return the numbers of the last line."""
    ranked = references(data)
    by_seed = [runs(data, ranked, stages, seed, epochs) for seed in range(seeds)]
    systems = {system: [found] for system, found in ranked.judged.items()}
    systems |= {system: [found[system] for found in by_seed] for system in by_seed[0]}
    split_scores = {
        system: {split: np.mean([data.scores(found, split) for found in each], axis=0) for split in ("dev", "test")}
        for system, each in systems.items()
    }
    means = {s: {split: float(v @ data.weights(split)) for split, v in of.items()} for s, of in split_scores.items()}
    spread = {s: float(np.std([mean(data, found, "test") for found in each])) for s, each in systems.items()}
    chosen = max(stages, key=lambda stage: means[stage]["dev"])
    best = max(ranked.judged, key=lambda system: means[system]["dev"])
    weights, test = data.weights("test"), {system: of["test"] for system, of in split_scores.items()}
    against = {system: p_value(test[chosen], test[system], weights) for system in systems if system != chosen}
    rows = [[s, means[s]["dev"], means[s]["test"], spread[s], against.get(s, "")] for s in systems]
    columns = ("system", "dev", "test", "sd over seeds", f"p against {chosen}")
    show(f"{name}: NDCG@10, {seeds} seeds, {epochs} epochs a stage", columns, rows)
    return {
        "start": means[backbone("22m").name]["test"],
        "bm25": means["bm25"]["test"],
        "best_reference": means[best]["test"],
        "plain": means["plain script"]["test"],
        "trained": means[chosen]["test"],
        "p_value": against[best],
        "p_value_plain": against["plain script"],
    }


def main() -> None:
    """Run the sets that are asked for and are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="64 pairs, 12 queries: does it run?")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1, help="of each of our stages")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    options = parser.parse_args()
    found = {}
    for name in options.sets:
        if not (options.data / name).is_dir():
            print(f"{name}: skipped, there is no {options.data / name}; name the folder with --data")
            continue
        data = SETS[name](options.data / name)
        if options.quick:
            data = smaller(data, 64, 6)
        found[name] = learn(name, data, options.stages, 1 if options.quick else options.seeds, options.epochs)
    finish(found)


if __name__ == "__main__":
    main()
