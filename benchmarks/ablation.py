"""What each choice of the pipeline adds on the demo's data: trainings with one choice changed, on judged questions.

``FOUNDRY_STORE=.foundry/store python benchmarks/ablation.py --seeds 3`` after ``make demo``, in a copy of its store if
that is to stay what the demo made of it. What was trained before is reused. The first row is the demo itself, with the
noise of seeds; each other one is compared with it and with the untrained model, by questions, means over seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import finish, sd, show

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import Store, open_store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.demo.runs import SIZE, training_runs
from pipeline_tasks.evaluation.scores import Scores, scores_of
from pipeline_tasks.evaluation.statistics import compare, weights
from pipeline_tasks.models.sizes import get_size

DEMO = "the demo"


@dataclass(frozen=True)
class Choice:
    """What is not as the demo has it.

    Attributes:
        labels: parameters of ``mutual_agreement``.
        pretrain: parameters of ``pretrain``.
        tuned: whether the size's fine-tuning iterations follow.
    """

    labels: Mapping[str, Any] = field(default_factory=dict)
    pretrain: Mapping[str, Any] = field(default_factory=dict)
    tuned: bool = True


CHOICES = {
    DEMO: Choice(),
    "labels: consistency": Choice(labels={"strategy": "consistency"}),
    "labels: mutual": Choice(labels={"strategy": "mutual"}),
    "no written positives": Choice(pretrain={"views": ["source"]}),
    "no hard negatives": Choice(tuned=False),
}


def trained(store: Store, choice: Choice, seed: int) -> Scores:
    """Scores on the judged questions of what is trained with ``seed``, and of the untrained model."""
    conf = training_runs(SIZE)["train_retriever"]
    mined = {key: value for key, value in training_runs(SIZE)["build_triplets"].items() if key != "alphas"}
    common = {"size": SIZE, "seed": seed} | {key: value for key, value in conf.items() if key.startswith("max_")}

    def run(name: str, inputs: dict[str, list[str]], **params: Any) -> str:
        return str(run_job(store, plan(store, get_step(name), params, inputs)).ref)

    def of_stage(stage: str) -> dict[str, Any]:
        return {k.removeprefix(f"{stage}_"): v for k, v in conf.items() if k.startswith(f"{stage}_")}

    labelled = run("mutual_agreement", {}, **choice.labels)
    model = run("pretrain", {}, **common | of_stage("pretrain") | choice.pretrain)
    for alpha in get_size(SIZE).alphas if choice.tuned else ():
        triplets = run("mine_negatives", {"labelled": [labelled]}, alpha=alpha, **mined)
        made_of = {"triplets": [triplets], "init": [model]}
        model = run("finetune", made_of, alpha=alpha, **common, **of_stage("finetune"))
    evaluated = run("evaluate_retriever", {"models": [model]}, size=SIZE, set_name="questions")
    return scores_of(Version.open(store, Ref.parse(evaluated)))


def values(found: Scores) -> np.ndarray:
    """NDCG@10 of every question by the trained model; [q]."""
    return found.values(next(name for name, version in found.models.items() if version))


def main() -> None:
    """Train, compare, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    options = parser.parse_args()
    store, by_choice = open_store(), {}
    for name in dict.fromkeys([DEMO, *options.choices]):
        by_choice[name] = [trained(store, CHOICES[name], seed) for seed in range(options.seeds)]
    intents = list(by_choice[DEMO][0].intents.values())
    start = by_choice[DEMO][0].values(f"{SIZE}/untrained")
    rows: list[list[str]] = []
    summary: dict[str, Any] = {"start": float(weights(intents) @ start)}
    base = np.mean([values(found) for found in by_choice[DEMO]], axis=0)
    for name, each in by_choice.items():
        of_seeds = [float(weights(intents) @ values(found)) for found in each]
        mean = np.mean([values(found) for found in each], axis=0)
        learned, beside = compare(mean, start, intents), compare(mean, base, intents)
        row = [name, " ".join(f"{score:.3f}" for score in of_seeds), f"{learned.gain:+.3f}", f"{learned.p:.2g}"]
        if name != DEMO:
            between = f"{beside.low:+.3f} … {beside.high:+.3f}"
            row += [f"{beside.gain:+.3f}", between, f"{beside.p:.2g}", f"{beside.p_worse:.2g}"]
        rows.append(row + [""] * (8 - len(row)))
        summary[name] = {"mean": float(np.mean(of_seeds)), "sd": sd(of_seeds)}
    columns = ("choice", "seeds", "over the start", "p", "over the demo", "95%", "p", "p of worse")
    show(f"{SIZE}: NDCG@10 of {len(intents)} questions, the start {summary['start']:.3f}", columns, rows)
    finish(summary)


if __name__ == "__main__":
    main()
