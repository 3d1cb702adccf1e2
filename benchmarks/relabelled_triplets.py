"""Which passages to train on: a query's own or the one that a judge prefers, against any neighbour or the judge's last.

The judge is a reranker that orders each query's nearest passages, as ``rerank_passages`` does; what it orders is
trained on with Gecko's Eq. 3, one negative a query, from a model that is small. Test queries are of other documents,
or at least other ones. No checkpoint is chosen: the last step's weights are scored.

Source: Gecko 4.3 and Figure 4.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from judged_sets import SETS, JudgedSet, Pair, smaller
from learning_rows import RANKS, Arrays, load_or_make
from measure import finish, show
from short_trainings import NOTHING, after_training, params_of, parser_of, start_of, vectors

from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.rerank_passages import order_with_margin
from pipeline_tasks.evaluation.statistics import against
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.cross_encoder import load_cross_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.data.examples import Examples

OBJECTIVE = {"name": "same_tower"}
Positive = Literal["own", "first"]
Negative = Literal["neighbour", "last"]
WAYS: dict[str, tuple[Positive, Negative]] = {
    "own, a neighbour": ("own", "neighbour"),
    "own, last": ("own", "last"),
    "first, a neighbour": ("first", "neighbour"),
    "first, last": ("first", "last"),
}
"""Positive and negative: the passage that the query was written for, or the judge's first; another of the nearest,
drawn by chance, or the judge's last."""


@dataclass(frozen=True)
class Compared:
    """Queries with their nearest passages, among them the own one, in a judge's order.

    Attributes:
        pairs: query and own passage, [q].
        orders: ids of passages, best first, [q] lists.
    """

    pairs: list[Pair]
    orders: list[list[str]]

    @property
    def changed(self) -> float:
        """Share of the queries whose first passage is not their own."""
        pairs = zip(self.pairs, self.orders, strict=True)
        return float(np.mean([pair.passage_id != order[0] for pair, order in pairs]))

    def triplet(self, at: int, positive: Positive, negative: Negative, seed: int) -> tuple[str, str]:
        """Ids of a query's positive and negative. A neighbour is neither of the two that may be positives."""
        pair, order = self.pairs[at], self.orders[at]
        first = order[0] if positive == "first" else pair.passage_id
        if negative == "last":
            return first, next(name for name in reversed(order) if name != first)
        others = [name for name in order if name not in (order[0], pair.passage_id)]
        return first, min(others, key=lambda name: unit_hash(pair.query, name, seed))


def compared(data: JudgedSet, options: argparse.Namespace, place: Path) -> Compared:
    """So many queries, drawn by a hash, with what the judge says of the nearest passages that were written about."""
    drawn = sorted({pair.query: pair for pair in data.pairs}.values(), key=lambda pair: unit_hash("drawn", pair.query))
    pairs = drawn[: options.queries]
    ids = sorted({pair.passage_id for pair in data.pairs})
    texts = {"queries": [pair.query for pair in pairs], "passages": [data.passages[name] for name in ids]}
    found = load_or_make(place / f"nearest-{short_id(texts)}.npz", lambda: vectors(start_of("22m"), texts))
    nearest = top_k(found["queries"], found["passages"], options.depth)[0]
    candidates = []
    for pair, row in zip(pairs, nearest, strict=True):
        names = [ids[place] for place in row]
        candidates.append(names if pair.passage_id in names else [*names, pair.passage_id])
    scores = load_or_make(place / f"judged-{short_id(options.judge, texts, candidates)}.npz", lambda: _judged(
        [(pair.query, data.passages[name]) for pair, names in zip(pairs, candidates, strict=True) for name in names],
        options.judge,
    ))["scores"]  # fmt: skip
    of_queries = np.split(scores, np.cumsum([len(names) for names in candidates])[:-1])
    orders = [
        [names[place] for place in order_with_margin(of, names.index(pair.passage_id), options.margin)]
        for pair, names, of in zip(pairs, candidates, of_queries, strict=True)
    ]
    return Compared(pairs, orders)


def _judged(asked: list[tuple[str, str]], judge: str) -> Arrays:
    queries, passages = zip(*asked, strict=True)
    return {"scores": load_cross_encoder(folder(judge), 512, settings().threads).scores(queries, passages)}


def rows_of(data: JudgedSet, found: Compared, way: str, seed: int) -> Examples:
    """One kind of triplets."""
    triplets = [found.triplet(at, *WAYS[way], seed) for at in range(len(found.pairs))]
    positives, negatives = ([data.passages[name] for name in column] for column in zip(*triplets, strict=True))
    return Examples.of([pair.query for pair in found.pairs], positives, [[text] for text in negatives])


def scored_on(data: JudgedSet, split: str, most: int) -> JudgedSet:
    """All of a set, or where it has more queries so many of the split, among the passages judged for any of them."""
    queries = [query for query in data.queries if query.split == split]
    return smaller(JudgedSet(data.passages, queries, []), 0, most) if len(queries) > most else data


def measure(name: str, options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """One set."""
    data = SETS[name](options.data / name)
    data = smaller(data, 64, 12) if options.quick else data
    place, seeds = place / name, options.seeds[:1] if options.quick else options.seeds
    found, asked = compared(data, options, place), scored_on(data, options.split, options.scored)
    texts = {"queries": [query.text for query in asked.queries], "passages": list(asked.passages.values())}

    def trained(way: str, seed: int) -> Arrays:
        params = params_of(options.size, seed, objective=OBJECTIVE, epochs=options.epochs)
        return after_training(rows_of(data, found, way, seed), NOTHING, params, texts, place / short_id(texts))

    def scores(of: Arrays) -> np.ndarray:
        return asked.scores(top_k(of["queries"], of["passages"], RANKS)[0], options.split)

    untouched = scores(
        load_or_make(
            place / short_id(texts) / f"start-{options.size}.npz", lambda: vectors(start_of(options.size), texts)
        )
    )
    of_seeds = {way: [scores(trained(way, seed)) for seed in seeds] for way in WAYS}
    intents, weights = asked.intents(options.split), asked.weights(options.split)
    values = {"untouched": untouched} | {way: np.mean(each, axis=0) for way, each in of_seeds.items()}
    baseline = next(iter(WAYS))
    differences = against(values, baseline, intents)
    figures, rows = {}, []
    for way, own in values.items():
        each = [float(one @ weights) for one in of_seeds.get(way, [own])]
        figures[way] = {"ndcg_at_10": round(float(own @ weights), 4), "seeds": [round(one, 4) for one in each]}
        if way in differences:
            of = differences[way]
            figures[way] |= {"gain": round(of.gain, 4), "low": round(of.low, 4), "high": round(of.high, 4)}
        rows.append([way, *figures[way].values()])
    title = f"{name}, {options.size}: {len(found.pairs)} queries to train, {found.changed:.0%} of positives changed"
    columns = ("positive, negative", "NDCG@10", "each seed", f"over {baseline}", "95% from", "to")
    show(f"{title}; {len(intents)} {options.split} queries", columns, [row + [""] * (6 - len(row)) for row in rows])
    return {"queries": len(found.pairs), "positives_changed": round(found.changed, 4)} | figures


def main() -> None:
    """Run the sets that are asked for."""
    parser = parser_of(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--judge", default="ms-marco-minilm-l12", help="a reranker of `foundry models`")
    parser.add_argument("--margin", type=float, default=0.25, help="logits by which another passage has to be better")
    parser.add_argument("--queries", type=int, default=384, help="to train on")
    parser.add_argument("--depth", type=int, default=10, help="nearest passages that are compared")
    parser.add_argument("--scored", type=int, default=700, help="queries at most to score by")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        finish({name: measure(name, options, options.keep or Path(passing)) for name in options.sets})


if __name__ == "__main__":
    main()
