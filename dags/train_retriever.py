"""From pairs and triplets to a trained and evaluated retriever."""

from __future__ import annotations

from airflow.sdk import DAG, Param, TaskGroup
from foundry_airflow.alerts import within
from foundry_airflow.forms import fields, form, form_value, levels
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import (
    AT_ONCE,
    DEFAULT_ARGS,
    evaluation_fields,
    evaluation_inputs,
    evaluation_tasks,
    fold_lineage,
    input_from_outputs_task,
    mine_negatives_task,
    mining_inputs,
    publish,
    step,
)

from pipeline_tasks.models.sizes import SIZES, adapts, alpha_of
from pipeline_tasks.training.params import OF_A_STAGE, OF_ADAPTATION, OF_ALL_STAGES

DOC = """
### From `mtp` and `labelled` to `model/<size>/finetune`

A decoder first learns to attend both ways (`adapt_backbone`). Then contrastive pre-training (none of an encoder where
`finetune_pretrained` is off), then a fine-tuning iteration for each level of the size's schedule, or of `alphas`, each
from the model before it; triplets that are missing are built on the way. The evaluation covers every stage.
Several sizes may train at once: the pool `gpu` says how many. All data is that of the latest `labelled`.
"""

SIZE = Param("33m", type="string", enum=list(SIZES), description="size of the model to train; 22m for few pairs")
CHOICES = ("causal", "reset_layers", "views", "cloze_from", "cloze_sentences")
OF_TRIPLETS = ("in_batch", "instruct", "pool_instruction", "triplets_from", "pretrained")
COMMON, START = form("pretrain", *OF_ALL_STAGES), form("pretrain", "backbone")
ADAPT = form("adapt_backbone", *OF_ADAPTATION, "general_from", prefix="adapt_")
PRETRAIN = form("pretrain", *OF_A_STAGE, *CHOICES, prefix="pretrain_")
FINETUNE = form("finetune", *OF_A_STAGE, *OF_TRIPLETS, prefix="finetune_")
MINE = form("mine_negatives", "n_negatives")
FORMS = (COMMON, START, ADAPT, PRETRAIN, FINETUNE, MINE)
ITERATIONS = max(len(size.alphas) for size in SIZES.values())
ALPHAS = levels(None, "finetune", "difficulty of each iteration, in order (left empty: the size's own)", ITERATIONS)

with DAG(
    "train_retriever",
    description="pairs and triplets -> a trained, evaluated retriever",
    schedule=None,
    max_active_runs=AT_ONCE,
    deadline=within(hours=14 * 24),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "training"],
    doc_md=DOC,
    params={"size": SIZE, "alphas": ALPHAS} | evaluation_fields() | fields(*FORMS),
    user_defined_macros={"alpha_of": alpha_of, "adapts": adapts},
) as dag:
    size, backbone = {"size": dag.param("size")}, {"backbone": form_value("pretrain", "backbone")}
    common = COMMON.values(dag) | size
    first, tuned = PRETRAIN.values(dag) | common | backbone, FINETUNE.values(dag) | common | backbone
    alphas = [f"{{{{ alpha_of(params.size, params.alphas, {i}) }}}}" for i in range(ITERATIONS)]
    iterations = (tuned, ("triplets", "init"), [f"mtt/{alpha}" for alpha in alphas])
    paths = mining_inputs() | evaluation_inputs()
    read = pin_versions(**paths, pretrain=(first, ("pairs", "init")), finetune=iterations)
    decoder = {name: common[name] for name in common if name != "max_query_length"} | ADAPT.values(dag) | backbone
    needed = "{{ params.finetune_pretrained and adapts(params.size, params.pretrain_causal) }}"
    adapted = step("adapt_backbone", inputs={"passages": read["passages"]}, params=decoder, only_if=needed)
    start = {"pairs": read["pairs"], "init": [adapted]}
    models = [step("pretrain", inputs=read["pretrain"] | start, params=first, only_if=tuned["pretrained"])]
    builds = [mine_negatives_task(f"level_{i}", alpha, read, MINE.values(dag)) for i, alpha in enumerate(alphas, 1)]
    further = input_from_outputs_task("finetune", "further", tuned, [read["finetune"]["further"], *builds])
    for i, (alpha, mined) in enumerate(zip(alphas, builds, strict=True), 1):
        with TaskGroup(f"iteration_{i}"):
            learned = read["finetune"] | {"triplets": mined, "further": further, "init": models[-1]}
            models.append(step("finetune", inputs=learned, params=tuned | {"alpha": alpha}, emits=False))
            tuned |= {"pretrained": "true"}
    published = publish("finetune", models[1:])
    evaluation_tasks(dag, read, models, size | backbone) >> published
    fold_lineage(published)
