"""Does training beat the model that it starts from by more than seed noise? Trains with several seeds on one store.

``FOUNDRY_STORE=.foundry/store python benchmarks/seed_noise.py 0 1 2``, after ``make demo``: the last line is one JSON
object.
"""

import json
import statistics
import sys

from measure import sd

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import Store, open_store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.demo.runs import SIZE, training_runs
from pipeline_tasks.evaluation.scores import AVERAGE, scores_of
from pipeline_tasks.models.sizes import get_size


def scores(store: Store, seed: int) -> dict[str, float]:
    """NDCG@10 of every system on the judged questions after training with ``seed``; what was trained is reused."""
    conf = training_runs(SIZE)["train_retriever"]
    common = {"size": SIZE, "seed": seed} | {k: v for k, v in conf.items() if k.startswith("max_")}

    def run(name: str, inputs: dict[str, list[str]], **params: object) -> str:
        return str(run_job(store, plan(store, get_step(name), params, inputs)).ref)

    def of_stage(stage: str) -> dict[str, object]:
        return {k.removeprefix(f"{stage}_"): v for k, v in conf.items() if k.startswith(f"{stage}_")}

    models = [run("pretrain", {}, **common, **of_stage("pretrain"))]
    for alpha in get_size(SIZE).alphas:
        inputs = {"triplets": [f"mtt/{alpha}"], "init": models[-1:]}
        models.append(run("finetune", inputs, alpha=alpha, **common, **of_stage("finetune")))
    evaluated = run("evaluate_retriever", {"models": models}, size=SIZE, set_name="questions")
    found = scores_of(Version.open(store, Ref.parse(evaluated)))
    return {system: row[AVERAGE].mean for system, row in found.table.items()}


def main() -> None:
    """Print a table of systems and seeds, then the summary."""
    store = open_store()
    seeds = [int(word) for word in sys.argv[1:]] or [0, 1, 2]
    found = {seed: scores(store, seed) for seed in seeds}
    systems = sorted(found[seeds[0]], key=lambda name: found[seeds[0]][name])
    summary = {}
    print(f"{'system':24}" + "".join(f"  seed {seed:<4}" for seed in seeds) + "   mean     sd")
    for name in systems:
        values = [found[seed][name] for seed in seeds]
        mean, noise = statistics.fmean(values), sd(values)
        summary[name] = {"mean": round(mean, 4), "sd": round(noise, 4)}
        print(f"{name:24}" + "".join(f"  {value:<9.4f}" for value in values) + f"  {mean:.4f}  {noise:.4f}")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
