"""What training adds on judged queries of other documents, beside systems that were not trained and a plain script.

The trainings are cumulative, each from the start: pairs of query and source passage; generated positives too; these as
queries too; the mean of the weights of the first and the last; pairs with negatives that are spread over the keyword
ranking, and the mean of that and of the last. Then, from the best of these on development queries:
mined hard negatives; the same with what a teacher makes of them, beside the labels or in their place. ``--means`` has
one model for each of its names: the mean of the weights of these stages' models, of all seeds. What is told is NDCG@10,
graded, mean over intents. With ``--dev`` the test queries are not looked at: for choosing settings.
``--wrong`` gives some pairs a source that is not theirs: what filters of positives are for.
``--others`` are sets that nothing was trained on: what the models lose there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from judged_sets import OTHERS, SETS, JudgedSet, judged_folder, needed, smaller
from learning_rows import FUSION, references, with_wrong_sources
from learning_stages import N_NEGATIVES, STAGES, Bench, Recipe
from measure import finish, sd, show

from pipeline_tasks.evaluation.statistics import Difference, compare
from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.training.params import Precision

DATA = Path("../shared/data/ir")
FIRST = ("pairs", "positives", "views", "agreed", "consistent", "averaged", "spread", "spread averaged")
PLAIN, SEEDS = "plain script", "all seeds of "


def trained(bench: Bench, stages: Sequence[str], seed: int) -> dict[str, np.ndarray]:
    """Rankings of the plain script and of every stage, with one seed."""
    found = {PLAIN: bench.plain(seed)}
    for name in stages:
        found[name] = bench.stage(name, seed, before(bench, name, found))
    return found


def before(bench: Bench, name: str, found: Mapping[str, np.ndarray]) -> str:
    """What a stage goes on from: of those without negatives that there are, the best on development queries."""
    first = [other for other in FIRST if other in found and STAGES[name].mined]
    return max(first, key=lambda other: bench.data.mean(found[other], "dev"), default="")


def models_of(bench: Bench, by_seed: Sequence[Mapping[str, np.ndarray]], means: Sequence[str]) -> dict[str, list[Path]]:
    """Folders of the stages' models, one for each seed, and of the means over all seeds of stages such as ``a+b``."""
    stages = [name for name in by_seed[0] if name != PLAIN]
    found = {
        name: [bench.of_stage(name, seed, before(bench, name, of)) for seed, of in enumerate(by_seed)]
        for name in stages
    }
    return found | {f"{SEEDS}{mean}": [bench.of_mean(members(found, mean))] for mean in means}


def members(models: Mapping[str, Sequence[Path]], mean: str) -> list[Path]:
    """Those of every stage of a mean."""
    return [model for name in mean.split("+") for model in models[name]]


def lost(bench: Bench, models: Mapping[str, Sequence[Path]], other: str, data: JudgedSet) -> dict[str, float]:
    """Show what the models score on another set, and return by name what they gain or lose there."""
    at = "test"
    start, gains, rows = data.scores(bench.elsewhere(other, data), at), {}, []
    for name, folders in models.items():
        each = [data.scores(bench.elsewhere(other, data, model), at) for model in folders]
        gain = compare(np.mean(each, axis=0), start, data.intents(at))
        rows.append([name, f"{np.mean(each):.3f}", f"{sd([scores.mean() for scores in each]):.3f}", *_gain(gain)])
        gains[name] = gain.gain
    columns = ("stage", at, "sd over seeds", "over the start", "95%", "p", "p of worse")
    show(f"{other}: NDCG@10 of {len(start)} queries, the start {start.mean():.3f}", columns, rows)
    return gains


def learn(
    title: str,
    bench: Bench,
    stages: Sequence[str],
    means: Sequence[str],
    seeds: int,
    splits: Sequence[str],
    others: Mapping[str, JudgedSet],
) -> dict[str, Any]:
    """Measure every system on one set, show the table, and return the numbers of the last line, of the last split."""
    data, last_split = bench.data, splits[-1]
    by_seed = [trained(bench, stages, seed) for seed in range(seeds)]
    models = models_of(bench, by_seed, means)
    systems = {name: [found] for name, found in bench.found.judged.items()} | {"untouched": [bench.untouched()]}
    systems |= {name: [found[name] for found in by_seed] for name in by_seed[0]}
    systems |= {f"{SEEDS}{mean}": [bench.mean(members(models, mean))] for mean in means}
    values = {
        s: {at: np.mean([data.scores(r, at) for r in each], axis=0) for at in splits} for s, each in systems.items()
    }
    mean_of = {s: {at: float(v @ data.weights(at)) for at, v in of.items()} for s, of in values.items()}
    spread = {s: sd([data.mean(found, last_split) for found in each]) for s, each in systems.items()}
    intents = data.intents(last_split)

    def over(system: str, other: str) -> Difference:
        return compare(values[system][last_split], values[other][last_split], intents)

    gains = {s: over(s, PLAIN) for s in systems if s != PLAIN}
    rows = [[s, *(f"{mean_of[s][at]:.3f}" for at in splits), f"{spread[s]:.3f}", *_gain(gains.get(s))] for s in systems]
    columns = ("system", *splits, "sd over seeds", "over the plain script", "95%", "p", "p of worse")
    show(f"{title}: NDCG@10 of {len(intents)} {last_split} queries, seeds {seeds}", columns, rows)
    chosen = max(models, key=lambda name: mean_of[name]["dev"])
    best = max(bench.found.judged, key=lambda system: mean_of[system]["dev"])
    ours = gains[chosen]
    elsewhere = {other: lost(bench, models, other, judged) for other, judged in others.items()}
    return {
        "split": last_split,
        "start": mean_of["untouched"][last_split],
        "bm25": mean_of["bm25"][last_split],
        "best_reference": mean_of[best][last_split],
        "plain": mean_of[PLAIN][last_split],
        "chosen": chosen,
        "trained": mean_of[chosen][last_split],
        "p_value": over(chosen, best).p,
        "p_value_plain": ours.p,
        "over_plain": [ours.gain, ours.low, ours.high],
        **{f"{other}_gain": gains[chosen] for other, gains in elsewhere.items()},
    }


def _gain(found: Difference | None) -> list[str]:
    if found is None:
        return [""] * 4
    return [f"{found.gain:+.3f}", f"{found.low:+.3f} … {found.high:+.3f}", f"{found.p:.2g}", f"{found.p_worse:.2g}"]


def options_of() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="64 pairs, 12 queries, one seed: does it run?")
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--others", nargs="*", choices=OTHERS, default=[], help="sets on which what the models lose is measured")
    add("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    add("--means", nargs="*", default=[], help="of the weights of all seeds of these stages: spread, or views+spread")
    add("--seeds", type=int, default=3)
    add("--size", choices=SIZES, default="22m")
    add("--precision", choices=get_args(Precision), default="fp32", help="of every training and what it trained")
    add("--references", nargs="+", choices=REFERENCE_MODELS, default=list(REFERENCE_MODELS), help="the first one mines")
    add("--teacher", choices=(FUSION, *REFERENCE_MODELS), default=FUSION, help="ranks of all, or cosines of one")
    add("--set", type=json.loads, default={}, dest="given", help='hyperparameters of our stages: {"epochs": 2}')
    add("--set-mined", type=json.loads, default={}, dest="given_mined", help="the same of those with mined negatives")
    add("--negatives", type=int, default=N_NEGATIVES, help="mined for a pair; fewer cost less")
    add("--wrong", type=float, default=0.0, help="share of the pairs that get another source than theirs")
    add("--dev", action="store_true", help="development queries alone")
    add("--data", type=Path, default=DATA, help="folder of the judged sets")
    add("--keep", type=Path, help="folder in which models and rankings stay: a run that was stopped goes on")
    found = parser.parse_args()
    found.stages.sort(key=list(STAGES).index)  # what a stage goes on from comes before it
    if unknown := {name for mean in found.means for name in mean.split("+")} - set(found.stages):
        parser.error(f"--means has {sorted(unknown)}, which is not in --stages {found.stages}")
    if found.dev and found.others:
        parser.error("--others are scored by test queries, which --dev leaves alone: give one of them")
    return found


def main() -> None:
    """Run the sets that are asked for."""
    options = options_of()
    of_all = options.size, options.precision, options.teacher, options.given
    recipe = Recipe(*of_all, options.given_mined, options.negatives)
    others = {name: judged_folder(needed(options.data / name), OTHERS[name]) for name in options.others}
    found = {}
    with tempfile.TemporaryDirectory() as passing:
        for name, path in [(name, needed(options.data / name)) for name in options.sets]:
            data = SETS[name](path)
            kind = f"{name}-quick" if options.quick else name
            if options.quick:
                data = smaller(data, 64, 6)
            if options.wrong:
                data, kind = with_wrong_sources(data, options.wrong), f"{kind}-wrong-{options.wrong}"
            place = (options.keep or Path(passing)) / kind
            bench = Bench(data, references(data, options.references, place), recipe, place)
            splits = ("dev",) if options.dev else ("dev", "test")
            seeds = 1 if options.quick else options.seeds
            found[name] = learn(f"{kind}, {options.size}", bench, options.stages, options.means, seeds, splits, others)
    finish(found)


if __name__ == "__main__":
    main()
