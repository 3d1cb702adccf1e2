"""From pairs and triplets to a trained and evaluated retriever."""

from __future__ import annotations

from airflow.sdk import DAG, Param, TaskGroup
from foundry_airflow.steps import (
    AT_ONCE,
    DEFAULT_ARGS,
    fold_lineage,
    form,
    given,
    judged_with,
    levels,
    mined_from,
    publish,
    step,
    within,
)

from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.training.params import OF_A_STAGE, OF_ALL_STAGES

DOC = """
### From `mtp` and `labelled` to `model/<size>/finetune`

Contrastive pre-training on the pairs, then one fine-tuning iteration for each level of the size's difficulty schedule,
each from the model before it; triplets that are missing are built on the way. The evaluation on held-out queries covers
every stage. Other levels may be chosen in `alphas`; iterations beyond a shorter schedule are skipped.

Several sizes may train at once: the pool `gpu` says how many. All data is that of the latest `labelled`.
"""

SIZES_HERE = [name for name, size in SIZES.items() if not size.decoder]
SIZE = Param("33m", type="string", enum=SIZES_HERE, description="size of the model to train")
SMALL_CORPUS = ("reset_layers", "cloze_from", "cloze_sentences")
COMMON = form("pretrain", *OF_ALL_STAGES)
PRETRAIN = form("pretrain", *OF_A_STAGE, *SMALL_CORPUS, prefix="pretrain_")
FINETUNE = form("finetune", *OF_A_STAGE, "in_batch", "pool_instruction", prefix="finetune_")
MINE = form("mine_negatives", "n_negatives")
ITERATIONS = max(len(size.alphas) for size in SIZES.values())
ALPHAS = levels(None, "finetune", "difficulty of each iteration, in order (left empty: the size's own)", ITERATIONS)


def alpha(size: str, chosen: list[str] | None, iteration: int) -> object:
    """Difficulty of the 0-based ``iteration``; empty where the schedule has no such iteration."""
    return dict(enumerate(chosen or SIZES[size].alphas)).get(iteration, "")


with DAG(
    "train_retriever",
    description="pairs and triplets -> a trained, evaluated retriever",
    schedule=None,
    max_active_runs=AT_ONCE,
    deadline=within(hours=14 * 24),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "training"],
    doc_md=DOC,
    params={"size": SIZE} | COMMON.params | PRETRAIN.params | {"alphas": ALPHAS} | FINETUNE.params | MINE.params,
    user_defined_macros={"alpha": alpha},
) as dag:
    read = given(**mined_from(), **judged_with())
    common = COMMON.values(dag) | {"size": dag.param("size")}
    models = [step("pretrain", inputs={"pairs": read["pairs"]}, params=PRETRAIN.values(dag) | common)]
    for i in range(ITERATIONS):
        level = f"{{{{ alpha(params.size, params.alphas, {i}) }}}}"
        with TaskGroup(f"iteration_{i + 1}"):
            mined = step(
                "mine_negatives",
                inputs={name: read[name] for name in ("labelled", "pairs", "passages", "rankings")},
                params=MINE.values(dag) | {"alpha": level},
                only_if=level,
                emits=False,
            )
            chosen = FINETUNE.values(dag) | common | {"alpha": level}
            models.append(step("finetune", inputs={"triplets": mined, "init": models[-1]}, params=chosen, emits=False))
    asked = {name: read[name] for name in ("pairs", "passages", "embeddings", "queries")} | {"models": models}
    evaluated = step("evaluate_retriever", inputs=asked, params={"size": dag.param("size")}, emits=False)
    published = publish("finetune", models[1:])
    evaluated >> published
    fold_lineage(published)
