"""From training pairs to triplets of several difficulties."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, Param, TaskGroup
from foundry_airflow.steps import DEFAULT_ARGS, default, fold_lineage, form, given, group_name, step

from pipeline_tasks.training.sizes import SIZES

DOC = """
### From `mtp` to `mtt/<alpha>`

Every reference model ranks all passages for every query. A query is kept where the models agree on its best passages;
its negatives come from the ranking, each with a cosine below alpha times the positive's. Rankings and agreement do not
depend on alpha: another level pays for selection alone.

Starts when `mtp` changed, and by hand with the levels that you choose.
"""

LEVELS = ["0.65", "0.75", "0.85", "0.95"]
ALPHAS = Param(
    [str(alpha) for alpha in SIZES["33m"].alphas],
    type="array",
    items={"type": "string", "pattern": r"^(0?\.\d+|1(\.0+)?)$"},
    minItems=1,
    uniqueItems=True,
    examples=LEVELS,
    section="mine_negatives",
    description="difficulty of the negatives, one build each: a negative's cosine is below alpha times the positive's",
)
RANK = form("rank_passages", "depth")
AGREE = form("mutual_agreement", "top_n")
MINE = form("mine_negatives", "n_negatives")

with DAG(
    "build_triplets",
    description="pairs -> agreed positives and hard negatives",
    schedule=[Asset("mtp")],
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "curation"],
    doc_md=DOC,
    params={"alphas": ALPHAS} | RANK.params | AGREE.params | MINE.params,
) as dag:
    read = given(pairs="mtp", passages="passages")
    rankings = {}
    for model in default("mutual_agreement", "models"):
        with TaskGroup(group_name(model)):
            which = {"model": model}
            passages = step("embed_passages", inputs={"passages": read["passages"]}, params=which)
            queries = step("embed_pairs", inputs={"pairs": read["pairs"]}, params=which)
            rankings[model] = step(
                "rank_passages",
                inputs={"queries": queries, "passages": passages},
                params=RANK.values(dag) | which,
            )
    labelled = step("mutual_agreement", inputs=read | {"rankings": list(rankings.values())}, params=AGREE.values(dag))
    mining = [rankings[model] for model in default("mine_negatives", "models")]
    triplets = step(
        "mine_negatives",
        inputs=read | {"labelled": labelled, "rankings": mining},
        params=MINE.values(dag),
        each={"alpha": dag.param("alphas")},
    )
    fold_lineage(triplets)
