"""Does a sampler find the source that helps and the one that harms? A mixture of real text with the truth planted.

Of five sources one has pairs of the target's own kind (disaster guides), one has other such pairs turned round, as a
label that was read the wrong way does: the passage of another query is the positive, and the answer a negative. Three
are of other things (abstracts on aerodynamics, claims on climate, captions). The target is the development queries of
the guides. All systems have the same budget of gradients; told are the probabilities at the end, from several starting
temperatures and seeds, the share of tokens that decisions took, the processor's seconds of a training, and NDCG@10 on
the test queries.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from judged_sets import SETS, JudgedSet
from measure import finish, show
from short_trainings import NOTHING, all_kept, placed, start_of

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import device_kind
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.params import Precision, TrainParams
from pipeline_tasks.training.validation import validate

DATA = Path("../shared/data/ir")
NEUTRAL = ("cranfield", "climate_fever_local", "snli_test_retrieval")
HELPS, HARMS = "guides", "guides, turned"
SOURCES = (HELPS, HARMS, *NEUTRAL)
LENGTHS = {"max_query_length": 32, "max_passage_length": 64}
CLUSTERS = 8
"""Of each source: 40 in all, where the paper has 32 or 1,024."""
RATE = 7e-5
"""Of learning. With 1e-4 much of what a few steps of Adam do to a finished embedder is damage, by whatever pairs; with
3e-5 pairs that harm do so too slowly to be told from others that do not help."""
TRIAL = 6
"""Steps of the trials of DoGE and DoReMi, so that a small budget has room for them."""


@dataclass(frozen=True)
class Setting:
    """What all runs share."""

    rows: Examples
    target: Examples
    test: Examples
    budget: int
    batch_size: int
    target_batch: int
    precision: Precision


def planted(data: Path, n: Mapping[str, int], target: JudgedSet) -> Examples:
    """So many pairs of each source, those that harm of other queries than those that help."""
    random = np.random.default_rng(0)
    pairs = [(pair.query, target.passages[pair.passage_id]) for pair in target.pairs]
    order = random.permutation(len(pairs))
    right, turned = order[: n[HELPS]], order[n[HELPS] : n[HELPS] + n[HARMS]]
    found = [(*pairs[i], [], HELPS) for i in right]
    others = np.roll(turned, 1)
    found += [(pairs[i][0], pairs[j][1], [pairs[i][1]], HARMS) for i, j in zip(turned, others, strict=True)]
    for name in NEUTRAL:
        judged = relevant(data / name)
        found += [(*judged[i], [], name) for i in random.permutation(len(judged))[: n[name]]]
    queries, positives, negatives, sources = zip(*found, strict=True)
    return Examples.of(queries, positives, negatives, sources=sources)


def relevant(place: Path) -> list[tuple[str, str]]:
    """Each query with one passage that is relevant to it."""
    texts, queries = (
        {row["_id"]: row["text"] for row in map(json.loads, (place / name).read_text("utf-8").splitlines())}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    best: dict[str, str] = {}
    with (place / "qrels.tsv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0 and texts.get(row["corpus-id"]):
                best.setdefault(row["query-id"], row["corpus-id"])
    return [(queries[query], texts[passage]) for query, passage in best.items()]


def judged_examples(data: JudgedSet, split: str) -> Examples:
    """The queries of a split, each with its best passage, among all that were judged for one of them."""
    queries = [query for query in data.queries if query.split == split]
    best = [data.passages[max(query.judged, key=query.judged.__getitem__)] for query in queries]
    judged = {data.passages[name] for query in queries for name in query.judged}
    return Examples.of([query.text for query in queries], best, others=sorted(judged))


def systems(starts: Sequence[float], target_batch: int) -> dict[str, dict[str, Any]]:
    """Static ones, those that decide from several starts, fixed trials, and what Inf-DDS is made of."""
    learned = {"every": 1, "warmup_steps": 4, "target_batch": target_batch, "rule": "standardised", "rate": 0.5}
    inf_dds = {"name": "inf_dds", "metric": "calibrated", "steps": 4, **learned}
    found: dict[str, dict[str, Any]] = {name: {"name": name} for name in ("uniform", "proportional")}
    for tau in starts:
        start = {"start": {"name": "temperature", "tau": tau}}
        found[f"inf_dds from tau {tau:g}"] = inf_dds | start
        found[f"multi_dds from tau {tau:g}"] = {"name": "multi_dds", **learned, **start}
    found["doge"] = {"name": "doge", "trial_steps": TRIAL, "target_batch": target_batch}
    found["doremi"] = {"name": "doremi", "trial_steps": TRIAL}
    found["crisp"] = {"name": "crisp", "clusters": CLUSTERS}
    changes: dict[str, dict[str, Any]] = {
        "metric loss": {"metric": "loss"},
        "metric ndcg": {"metric": "ndcg"},
        "rule adam": {"rule": "adam"},
        "no reptile": {"reptile": False},
        "reptile_rate 1": {"reptile_rate": 1.0, "reward_temperature": 0.005},
        "l 1": {"steps": 1},
        "k 2": {"sources": 2},
    }
    return found | {f"inf_dds, {name}": inf_dds | change for name, change in changes.items()}


def ndcg(encoder: TrainableEncoder, test: Examples) -> float:
    """NDCG@10 on the test queries."""
    with tempfile.TemporaryDirectory() as place:
        rows = tokenized(test, encoder.tokens, Path(place), **LENGTHS)
        return validate(encoder, rows, 4096, autocast=False)


def run(setting: Setting, sampler: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """One training: probabilities at the end, [sources], share of tokens that decisions took, seconds, the score."""
    clusters, sampler = sampler.get("clusters"), {name: sampler[name] for name in sampler.keys() - {"clusters"}}
    params = TrainParams(
        size="22m", in_batch=True, learning_rate=RATE, temperature=0.02, batch_size=setting.batch_size,
        seed=seed, sampler=sampler, clusters=clusters, budget=setting.budget, precision=setting.precision,
        **placed(), **LENGTHS,
    )  # fmt: skip
    began = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        result = train(
            setting.rows, NOTHING, start_of("22m"), params, Path(work),
            targets={"guides-dev": setting.target}, threads=settings().threads,
        )  # fmt: skip
    seconds = time.process_time() - began
    last = result.trajectory[-1]
    likely = dict.fromkeys(SOURCES, 0.0)
    for name, probability in zip(last["sources"], last["probabilities"], strict=True):
        likely[name.partition("/cluster-")[0]] += probability
    deciding = last["deciding_tokens"] / last["tokens"]
    found = {"deciding": deciding, "seconds": seconds, "ndcg": ndcg(result.encoder, setting.test)}
    return {"likely": np.array(list(likely.values()))} | {name: np.array(value) for name, value in found.items()}


def summarize(found: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Of all seeds of a system."""
    likely = np.array([one["likely"] for one in found])
    helps, harms = likely[:, SOURCES.index(HELPS), None], likely[:, SOURCES.index(HARMS), None]
    mean = {name: float(np.mean([one[name] for one in found])) for name in ("deciding", "seconds", "ndcg")}
    return {
        "likely": dict(zip(SOURCES, likely.mean(axis=0).round(3).tolist(), strict=True)),
        "helps_highest": int(((helps > likely).sum(axis=1) == len(SOURCES) - 1).sum()),
        "harms_lowest": int(((harms < likely).sum(axis=1) == len(SOURCES) - 1).sum()),
        "seeds": len(found),
        "deciding": round(mean["deciding"], 3),
        "seconds": round(mean["seconds"], 1),
        "ndcg": round(mean["ndcg"], 4),
    }


def trained(
    setting: Setting, chosen: Mapping[str, dict[str, Any]], seeds: Sequence[int], place: Path, at_once: int
) -> dict[str, list[dict[str, np.ndarray]]]:
    """What :func:`run` finds of each system, by seed; what lies in ``place`` is not trained again."""
    shared = setting.budget, setting.batch_size, setting.target_batch, setting.precision, device_kind()
    paths = {
        place / f"{name}-{seed}-{short_id(sampler, *shared)}.npz": (name, seed)
        for seed in seeds
        for name, sampler in chosen.items()
    }
    found: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    makes = {path: partial(run, setting, chosen[name], seed) for path, (name, seed) in paths.items()}
    for path, one in all_kept(makes, at_once):
        found[paths[path]] = one
        print(*paths[path], dict(zip(SOURCES, one["likely"].round(3).tolist(), strict=True)), flush=True)
    return {name: [found[name, seed] for seed in seeds] for name in chosen}


def main() -> None:
    """Print a line a training as it is done, then the table and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, one seed: does it run?")
    parser.add_argument("--systems", nargs="+", default=[], help="beginnings of their names; all where not given")
    parser.add_argument("--starts", nargs="+", type=float, default=[0.3, 1.0, 100.0], help="temperatures")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32", help="arithmetic of the trainings")
    parser.add_argument("--budget", type=int, default=508, help="gradients of a training")
    parser.add_argument("--keep", type=Path, help="folder in which scores stay: a run that was stopped goes on")
    parser.add_argument("--at-once", type=int, default=1, help="trainings; give each a core by FOUNDRY_THREADS=1")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.budget = [0], 40
    guides = SETS["disaster_guides"](options.data / "disaster_guides")
    n = dict(zip(SOURCES, (200, 400, 200, 300, 400), strict=True))
    looked_at = 16 if options.quick else 60
    setting = Setting(
        planted(options.data, n, guides), judged_examples(guides, "dev"), judged_examples(guides, "test"),
        options.budget, 8, looked_at, options.precision,
    )  # fmt: skip
    start = open_encoder(start_of("22m"), TrainParams(size="22m"))
    results: dict[str, Any] = {"start": {"ndcg": round(ndcg(start, setting.test), 4)}}
    known = systems(options.starts, looked_at)
    chosen = {name: known[name] for name in known if not options.systems or name.startswith(tuple(options.systems))}
    with tempfile.TemporaryDirectory() as place:
        found = trained(setting, chosen, options.seeds, options.keep or Path(place), options.at_once)
    results |= {name: summarize(some) for name, some in found.items()}
    counts = ("helps_highest", "harms_lowest", "seeds", "deciding", "seconds", "ndcg")
    columns = ("system", *n, *counts)
    lines = [
        (name, *one["likely"].values(), *(one[count] for count in counts))
        for name, one in results.items()
        if "likely" in one
    ]
    show(f"{setting.budget} gradients; NDCG@10 of the start {results['start']['ndcg']}", columns, lines)
    finish(results)


if __name__ == "__main__":
    main()
