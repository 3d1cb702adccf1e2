"""In which order should a model meet hard negatives? Learned, from easy to hard, or mixed from the start.

Triplets of the disaster guides at several levels alpha: negatives that the model, as it came, scores just below alpha
times the positive. ``learned`` lets Inf-DDS choose the level of each batch by what it does for the development queries;
``progressive`` goes on from each level's model to the next level's triplets (DMRetriever); ``mixed`` draws all levels
alike; ``hardest`` has the last level alone. All have the same budget of gradients. Told is NDCG@10 on the test queries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from judged_sets import SETS, JudgedSet
from learning_rows import load_or_make
from measure import finish, show
from sampler_pools import LENGTHS, graded, ndcg
from short_trainings import NOTHING, parser_of, placed, start_of, vectors

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.evaluation.statistics import interval
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.loop import TrainResult
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.params import Precision, TrainParams

ALPHAS = (0.65, 0.8, 0.95)
N_NEGATIVES, LOOKED_AT = 2, 60
LEARNED = {
    "name": "inf_dds", "metric": "calibrated", "rule": "standardised", "rate": 0.3, "every": 4, "warmup_steps": 4,
    "target_batch": LOOKED_AT,
}  # fmt: skip
Rows = list[tuple[str, str, list[str], str]]
"""Query, positive, negatives, level."""


@dataclass(frozen=True)
class Setting:
    """What all trainings share."""

    levels: dict[str, Rows]
    dev: Examples
    budget: int
    params: TrainParams

    def train(self, levels: Sequence[str], sampler: Mapping[str, Any], budget: int, start: Path) -> TrainResult:
        """On the triplets of some levels."""
        queries, positives, negatives, sources = zip(
            *(row for name in levels for row in self.levels[name]), strict=True
        )
        rows = Examples.of(queries, positives, negatives, sources=sources)
        params = self.params.model_validate(self.params.model_dump() | {"sampler": dict(sampler), "budget": budget})
        with tempfile.TemporaryDirectory() as work:
            targets = {"dev": self.dev}
            return train(rows, NOTHING, start, params, Path(work), targets=targets, threads=settings().threads)

    def progressive(self) -> TrainResult:
        """From level to level, each with its share of the budget and its own schedule of the learning rate."""
        start = start_of(self.params.size)
        layout = replace(layout_of(start), max_length=LENGTHS["max_passage_length"])
        with tempfile.TemporaryDirectory() as place:
            for number, level in enumerate(self.levels):
                result = self.train([level], {"name": "uniform"}, self.budget // len(self.levels), start)
                start = Path(place) / str(number)
                export(result.encoder, start, card={"name": "trained"}, layout=layout)
        return result


def triplets(data: JudgedSet, found: Mapping[str, np.ndarray], alpha: float) -> Rows:
    """Each pair with the passages of other pairs that score highest below alpha times its own."""
    ids = list(data.passages)
    places = {name: place for place, name in enumerate(ids)}
    answers, trained_on = data.answers(), {pair.passage_id for pair in data.pairs}
    rows = []
    for pair, scores in zip(data.pairs, found["queries"] @ found["passages"].T, strict=True):
        below = alpha * scores[places[pair.passage_id]]
        ranked = (ids[place] for place in np.argsort(-scores) if scores[place] < below)
        others = [name for name in ranked if name in trained_on - answers[pair.query]][:N_NEGATIVES]
        if others:
            negatives = [data.passages[name] for name in others]
            rows.append((pair.query, data.passages[pair.passage_id], negatives, f"mtt/{alpha}"))
    return rows


def scored(setting: Setting, system: str, test: Examples) -> dict[str, np.ndarray]:
    """One training: NDCG@10 by query, and how often each level was drawn."""
    names, start, precision = list(setting.levels), start_of(setting.params.size), setting.params.precision
    if system == "progressive":
        found = ndcg(setting.progressive().encoder, test, precision)
        return {"ndcg": found, "drawn": np.full(len(names), 1 / len(names))}
    of = names[-1:] if system == "hardest" else names
    sampler = LEARNED if system == "learned" else {"name": "uniform"}
    result = setting.train(of, sampler, setting.budget, start)
    drawn = dict(zip(of, result.trajectory[-1]["drawn"], strict=True))
    shares = np.array([drawn.get(name, 0) for name in names])
    return {"ndcg": ndcg(result.encoder, test, precision), "drawn": shares / shares.sum()}


def main() -> None:
    """Print a line a training as it is done, then the table and one JSON object."""
    parser = parser_of(__doc__)
    parser.add_argument("--budget", type=int, default=60, help="gradients of a training")
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32", help="arithmetic of the trainings")
    options = parser.parse_args()
    data = SETS["disaster_guides"](options.data / "disaster_guides")
    if options.quick:
        data, options.seeds, options.budget = replace(data, pairs=data.pairs[:60]), [0], 21
    test, dev = graded(data, "test", len(data.queries)), graded(data, "dev", len(data.queries))
    with tempfile.TemporaryDirectory() as other:
        place = options.keep or Path(other)
        texts = {"queries": [pair.query for pair in data.pairs], "passages": list(data.passages.values())}
        found = load_or_make(place / f"start-{short_id(texts)}.npz", partial(vectors, start_of(options.size), texts))
        levels = {f"mtt/{alpha}": triplets(data, found, alpha) for alpha in ALPHAS}
        print({name: len(rows) for name, rows in levels.items()}, flush=True)
        runs: dict[str, list[dict[str, np.ndarray]]] = {}
        for seed in options.seeds:
            params = TrainParams(
                size=options.size, learning_rate=5e-5, temperature=0.02, batch_size=8, seed=seed,
                precision=options.precision, **placed(), **LENGTHS,
            )  # fmt: skip
            setting = Setting(levels, dev, options.budget, params)
            for system in ("mixed", "progressive", "learned", "hardest"):
                key = short_id(system, params.identity(), options.budget, levels, LEARNED)
                runs.setdefault(system, []).append(
                    load_or_make(place / f"{system}-{seed}-{key}.npz", partial(scored, setting, system, test))
                )
                print(system, seed, round(float(runs[system][-1]["ndcg"].mean()), 4), flush=True)
    untrained = open_encoder(start_of(options.size), TrainParams(size=options.size))
    finish(tabled(ndcg(untrained, test, options.precision), runs, list(levels)))


def tabled(
    untrained: np.ndarray, runs: Mapping[str, Sequence[Mapping[str, np.ndarray]]], levels: Sequence[str]
) -> dict[str, Any]:
    """Of each system: its mean, its difference to ``mixed``, and the shares of the levels."""
    per_query = {"untrained": untrained}
    per_query |= {system: np.mean([one["ndcg"] for one in found], axis=0) for system, found in runs.items()}
    results: dict[str, Any] = {}
    lines = []
    for system, values in per_query.items():
        ahead = values - per_query["mixed"]
        low, high = interval(ahead, ["all"] * len(ahead))
        drawn = (
            np.mean([one["drawn"] for one in runs[system]], axis=0) if system in runs else np.full(len(levels), np.nan)
        )
        results[system] = {
            "ndcg": round(float(values.mean()), 4),
            "ahead_of_mixed": round(float(ahead.mean()), 4),
            "interval": [round(low, 4), round(high, 4)],
            "drawn": dict(zip(levels, drawn.round(3).tolist(), strict=True)) if system in runs else {},
        }
        lines.append((system, *list(results[system].values())[:2], low, high, *drawn))
    show("Hard negatives in which order", ("system", "NDCG@10", "ahead of mixed", "from", "to", *levels), lines)
    return results


if __name__ == "__main__":
    main()
