"""Which of five collections should a model learn from, for each of them as the target? Samplers at the same budget.

The pool: news, disaster guides, captions, aerodynamics and claims on climate. Every collection has pairs to train on,
and development and test queries apart from them. Each is the target in turn: those samplers that look at a target have
a training for each, all others one for all. Told are NDCG@10 on the target's test queries, mean over seeds, and what
Inf-DDS is ahead of each other sampler, with a bootstrap interval over queries.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from judged_sets import SETS, JudgedSet, divided
from measure import finish, sd, show
from short_trainings import NOTHING, all_kept, placed, start_of

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import device_kind
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.evaluation.statistics import interval, p_greater
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.params import Precision, TrainParams
from pipeline_tasks.training.validation import embed, mean_ndcg, ranks_of_positives

DATA = Path("../shared/data/ir")
LENGTHS = {"max_query_length": 32, "max_passage_length": 64}
N_QUERIES, N_PASSAGES = 100, 400
"""Test queries of a target, and at least so many passages to find theirs among."""
OURS, CLUSTERS, TRIAL, LOOKED_AT = "inf_dds", 8, 4, 32


@dataclass(frozen=True)
class Pool:
    """What all trainings share.

    Attributes:
        rows: to train on, each with its collection.
        dev, test: by collection; a row for each relevant passage of a query, taught its grade.
    """

    rows: Examples
    dev: dict[str, Examples]
    test: dict[str, Examples]
    budget: int
    batch_size: int
    precision: Precision

    @property
    def identity(self) -> tuple[Any, ...]:
        """What scores depend on beside the sampler."""
        n_rows = [
            sum(len(block) for block in rows.blocks()) for rows in (self.rows, *self.dev.values(), *self.test.values())
        ]
        return self.budget, self.batch_size, self.precision, device_kind(), n_rows


def collections(data: Path) -> dict[str, JudgedSet]:
    """The five, by a short name."""
    found = {name: SETS[name](data / name) for name in ("multihoprag_snippets", "disaster_guides")}
    others = {"snli_test_retrieval": "nli", "cranfield": "qa", "climate_fever_local": "fact_checking"}
    return found | {name: divided(data / name, intent) for name, intent in others.items()}


def pool_of(sets: dict[str, JudgedSet], budget: int, batch_size: int, precision: Precision, n_queries: int) -> Pool:
    """Training rows of all, queries of each."""
    rows = [(p.query, data.passages[p.passage_id], name) for name, data in sets.items() for p in data.pairs]
    queries, positives, sources = zip(*rows, strict=True)
    dev = {name: graded(data, "dev", n_queries) for name, data in sets.items()}
    test = {name: graded(data, "test", n_queries) for name, data in sets.items()}
    return Pool(Examples.of(queries, positives, sources=sources), dev, test, budget, batch_size, precision)


def graded(data: JudgedSet, split: str, n_queries: int) -> Examples:
    """The first queries of a split among the passages judged for them and the corpus' first ones."""
    asked = [query for query in data.queries if query.split == split and query.relevant][:n_queries]
    rows = [
        (query.text, data.passages[name], [float(query.judged[name])]) for query in asked for name in query.relevant
    ]
    judged = {name for query in asked for name in query.judged}
    others = judged.union(list(data.passages)[: max(0, N_PASSAGES - len(judged))])
    queries, positives, grades = zip(*rows, strict=True)
    return Examples.of(queries, positives, targets=grades, others=sorted(data.passages[name] for name in others))


def systems(names: Sequence[str], target: str) -> dict[str, dict[str, Any]]:
    """Samplers with what they are given; ``expert`` is what one would guess: half the batches from the target's own."""
    learned = {"target_batch": LOOKED_AT, "rule": "standardised", "rate": 0.3, "warmup_steps": 4}
    ours = {"name": "inf_dds", "metric": "calibrated", "every": 4, **learned}
    return {
        "uniform": {"name": "uniform"},
        "proportional": {"name": "proportional"},
        "temperature": {"name": "temperature", "tau": 3.0},
        "cooldown": {"name": "cooldown"},
        "doremi": {"name": "doremi", "trial_steps": TRIAL},
        "expert": {"name": "expert", "weights": {name: 1 + (len(names) - 2) * (name == target) for name in names}},
        "crisp": {"name": "crisp"},
        "doge": {"name": "doge", "trial_steps": TRIAL, "target_batch": LOOKED_AT},
        "multi_dds": {"name": "multi_dds", "every": 10, **learned},
        OURS: ours,
        f"{OURS}, reptile_rate 1": ours | {"reptile_rate": 1.0, "reward_temperature": 0.005},
    }


BLIND = ("uniform", "proportional", "temperature", "cooldown", "doremi")
"""Those that look at no target."""


def ndcg(encoder: TrainableEncoder, test: Examples, precision: Precision) -> np.ndarray:
    """NDCG@10 of each query, [q]; the encoder computes as it was trained."""
    autocast = precision == "bf16"
    with tempfile.TemporaryDirectory() as place:
        rows = tokenized(test, encoder.tokens, Path(place), **LENGTHS)
        queries, passages = (
            embed(encoder, rows.queries, 4096, autocast, unpooled=rows.unpooled),
            embed(encoder, rows.passages, 4096, autocast),
        )
        ranks = ranks_of_positives(queries[rows.query_of], passages, rows.positive_of)
        grades = rows.targets_of.values[rows.targets_of.offsets[:-1]].astype(np.float64)
        of_query = [np.flatnonzero(rows.query_of == number) for number in range(len(rows.queries))]
        return np.array([mean_ndcg(ranks[own], grades[own], np.zeros(len(own), np.int64)) for own in of_query])


def run(pool: Pool, sampler: dict[str, Any], target: str | None, seed: int) -> dict[str, np.ndarray]:
    """One training: scores by target, or of the one target, and how likely each collection was in the mean of steps."""
    params = TrainParams(
        size="22m", in_batch=True, learning_rate=5e-5, temperature=0.02, batch_size=pool.batch_size,
        seed=seed, sampler=sampler, clusters=CLUSTERS if sampler["name"] == "crisp" else None, budget=pool.budget,
        precision=pool.precision, **placed(), **LENGTHS,
    )  # fmt: skip
    guides = {target: pool.dev[target]} if target else {}
    with tempfile.TemporaryDirectory() as work:
        result = train(
            pool.rows, NOTHING, start_of("22m"), params, Path(work), targets=guides, threads=settings().threads
        )
    last = result.trajectory[-1]
    drawn = dict.fromkeys(pool.dev, 0)
    for name, n_batches in zip(last["sources"], last["drawn"], strict=True):
        drawn[name.partition("/cluster-")[0]] += n_batches
    cost = np.array([last["deciding_tokens"] / last["tokens"]])
    scores = {
        name: ndcg(result.encoder, pool.test[name], pool.precision) for name in ([target] if target else pool.test)
    }
    return scores | {"drawn": np.array(list(drawn.values())) / sum(drawn.values()), "deciding": cost}


def main() -> None:
    """Print a line a training as it is done, then the tables and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--targets", nargs="+", default=[], help="beginnings of their names; all where not given")
    parser.add_argument("--budget", type=int, default=72, help="gradients of a training")
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32", help="arithmetic of the trainings")
    parser.add_argument("--keep", type=Path, help="folder in which scores stay: a run that was stopped goes on")
    parser.add_argument("--at-once", type=int, default=1, help="trainings; give each a core by FOUNDRY_THREADS=1")
    parser.add_argument("--quick", action="store_true", help="few steps, one seed and target: does it run?")
    options = parser.parse_args()
    sets = collections(options.data)
    if options.quick:
        options.seeds, options.targets, options.budget = [0], ["cranfield"], 40
    pool = pool_of(sets, options.budget, 8, options.precision, 20 if options.quick else N_QUERIES)
    targets = [name for name in sets if not options.targets or name.startswith(tuple(options.targets))]
    with tempfile.TemporaryDirectory() as place:
        results = compared(pool, targets, options.seeds, options.keep or Path(place), options.at_once)
    finish(results)


@dataclass(frozen=True)
class Training:
    """One to do: the sampler with what it is given, and the target that it looks at, if any."""

    name: str
    sampler: dict[str, Any]
    looked_at: str | None
    seed: int

    def path(self, pool: Pool, place: Path) -> Path:
        """Where in ``place`` its scores are kept."""
        key = short_id(self.name, self.sampler, self.looked_at, self.seed, pool.identity)
        return place / f"{self.name}-{key}.npz"


def compared(pool: Pool, targets: Sequence[str], seeds: Sequence[int], place: Path, at_once: int) -> dict[str, Any]:
    """Do every training that does not lie in ``place``, and print a table a target."""
    wanted: dict[tuple[str, str, int], Training] = {}
    for seed, target in product(seeds, targets):
        for name, sampler in systems(list(pool.dev), target).items():
            wanted[target, name, seed] = Training(name, sampler, None if name in BLIND else target, seed)
    # What targets share comes last: another process may have done it.
    todo = {one.path(pool, place): one for one in sorted(wanted.values(), key=lambda one: one.looked_at is None)}
    makes = {path: partial(run, pool, one.sampler, one.looked_at, one.seed) for path, one in todo.items()}
    done: dict[Path, dict[str, np.ndarray]] = {}
    for path, found in all_kept(makes, at_once):
        done[path] = found
        means = {name: round(float(found[name].mean()), 4) for name in targets if name in found}
        print(f"{len(done)} of {len(todo)}", todo[path].name, todo[path].seed, means, flush=True)
    untrained = open_encoder(start_of("22m"), TrainParams(size="22m"))
    results = {}
    for target in targets:
        names = systems(list(pool.dev), target)
        runs = {name: [done[wanted[target, name, seed].path(pool, place)] for seed in seeds] for name in names}
        results[target] = tabled(target, ndcg(untrained, pool.test[target], pool.precision), runs, list(pool.dev))
    return results


def tabled(
    target: str, before: np.ndarray, found: dict[str, list[dict[str, np.ndarray]]], names: Sequence[str]
) -> dict[str, Any]:
    """Of each sampler: its mean, what Inf-DDS is ahead of it, where its batches came from."""
    per_query = {"untrained": before} | {
        name: np.mean([one[target] for one in runs], axis=0) for name, runs in found.items()
    }
    ours, table, lines = per_query[OURS], {}, []
    for name, values in per_query.items():
        low, high = interval(ours - values, ["all"] * len(values))
        row: dict[str, Any] = {
            "ndcg": round(float(values.mean()), 4),
            "ahead": round(float((ours - values).mean()), 4),
            "interval": [round(low, 4), round(high, 4)],
            "p": round(p_greater(ours, values), 4),
        }
        if name in found:
            drawn = np.mean([one["drawn"] for one in found[name]], axis=0)
            row["drawn"] = dict(zip(names, drawn.round(3).tolist(), strict=True))
            row["sd_of_seeds"] = round(sd([one[target].mean() for one in found[name]]), 4)
            row["deciding"] = round(float(np.mean([one["deciding"] for one in found[name]])), 3)
        table[name] = row
        drawn = row.get("drawn", {}).values()
        lines.append((name, row["ndcg"], row["ahead"], *row["interval"], *drawn, row.get("deciding", "")))
    show(target, ("sampler", "NDCG@10", f"{OURS} ahead by", "from", "to", *names, "deciding"), lines)
    return table


if __name__ == "__main__":
    main()
