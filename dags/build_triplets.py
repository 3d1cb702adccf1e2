"""From training pairs to triplets of several difficulties."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, Param, TaskGroup
from foundry_airflow.alerts import within
from foundry_airflow.forms import form, levels
from foundry_airflow.inputs import pin_versions
from foundry_airflow.paths import passages_of_pairs
from foundry_airflow.rankers import rankers
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, group_name, step

from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.retrieval.fusion import BM25

DOC = """
### From `mtp` to `mtt/<alpha>`

Every reference model ranks all passages for the queries of the intents that it judges. Which queries are
kept, and with which positive, `strategy` says: without one all, with their own. Negatives come from the ranking, each
with a cosine below alpha times the positive's. Rankings and labels do not depend on alpha: another level pays for
selection alone.

With `fusion` every model ranks for all queries, and BM25 and its fusion with the models are ranked, too; they may judge
and rank negatives like any model.
Levels in `kd_alphas` are built, too, and get a teacher's scores, `mtt/<alpha>-kd`, from vectors that are there.

Starts after `synthesize_pairs`, also where that found nothing new, and by hand with the levels that you choose. Paused,
as it is created, it misses that run for good: start it by hand. One more level later: `build_level`.
"""

ALPHAS = levels(
    [str(alpha) for alpha in SIZES["33m"].alphas],
    "mine_negatives",
    "one build each: a negative's cosine is below alpha times the positive's; levels not listed here: build_level",
)
KD_ALPHAS = levels(None, "score_triplets", "levels that also get the scores of a teacher, for distillation")
FUSION = Param(False, type="boolean", section="fuse_rankings", description="also rank by BM25, and fuse all rankings")
RANK = form("rank_passages", "depth")
AGREE = form("mutual_agreement", "strategy", "top_n")
MINE = form("mine_negatives", "n_negatives")

with DAG(
    "build_triplets",
    description="pairs -> labelled positives and hard negatives",
    schedule=[Asset("mtp")],
    max_active_runs=1,
    deadline=within(hours=72),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "curation"],
    doc_md=DOC,
    params={"alphas": ALPHAS, "kd_alphas": KD_ALPHAS, "fusion": FUSION} | RANK.params | AGREE.params | MINE.params,
) as dag:
    read = pin_versions(pairs="mtp", passages=passages_of_pairs)
    rankings, vectors, depth, fusion, who = {}, {}, RANK.values(dag), dag.param("fusion"), rankers()
    for model in who.embedders:
        with TaskGroup(group_name(model)):
            which = {"model": model}
            passages = step("embed_passages", inputs={"passages": read["passages"]}, params=which)
            asked = which | who.encoding_limits(model, all_if=fusion)
            queries = step("embed_pairs", inputs={"pairs": read["pairs"]}, params=asked)
            vectors[model] = queries, passages
            given_vectors = {"queries": queries, "passages": passages, "positives": queries}
            rankings[model] = step("rank_passages", inputs=given_vectors, params=depth | which)
    by_words, wanted = read | {"positives": read["pairs"]}, BM25 in who.models or fusion
    rankings[BM25] = step("rank_bm25", inputs=by_words, params=depth, only_if=wanted)
    to_fuse = {"pairs": read["pairs"], "rankings": [rankings[model] for model in who.fused]}
    fused = step("fuse_rankings", inputs=to_fuse, params=depth | {"models": who.fused}, only_if=fusion)
    agreement_inputs = read | {"rankings": [rankings[model] for model in who.models]}
    labelled = step("mutual_agreement", inputs=agreement_inputs, params=AGREE.values(dag))
    triplets = step(
        "mine_negatives",
        inputs=read | {"labelled": labelled, "rankings": [rankings[model] for model in who.best]},
        params=MINE.values(dag),
        each={"alpha": [dag.param("alphas"), dag.param("kd_alphas")]},
    )
    teach = {name: [vectors[model][at] for model in who.teachers] for at, name in enumerate(("queries", "passages"))}
    taught, kd = teach | {"triplets": triplets}, {"alpha": dag.param("kd_alphas")}
    scored = step("score_triplets", inputs=taught, params={"models": who.teachers}, each=kd)
    fold_lineage(scored, fused)
