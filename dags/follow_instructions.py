"""From pairs to an embedder whose ranking follows the instruction of a query."""

from __future__ import annotations

from airflow.sdk import DAG, Param
from foundry_airflow.ahead import batch_field
from foundry_airflow.alerts import within
from foundry_airflow.forms import BY_CHAT, fields, form, form_value
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, step

from pipeline_tasks.evaluation.judge_queries import QUESTIONS
from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.training.params import OF_A_STAGE, OF_ALL_STAGES

DOC = """
### From `mtp` to `model/<size>/instructions`

An LLM writes an instruction for every sampled pair, then poison for it: another instruction and another query under
which the pair's passage is wrong, and passages that fit these. A model that reasons has to find the right passage for
all three questions of such a tuple; others are refused, with what it found. An embedder learns from what is left.

It is scored on those of the domain's questions that several passages answer, which get instructions by rules: does its
ranking change as these say (`p-mrr`)? A held-out query has one passage, so that no rule can say anything of it.

Started by hand. The endpoint is the worker's `OPENAI_BASE_URL`; `judge` is the model that checks, `llm` the one that
writes. Every answer is kept: a run on more pairs pays for the new ones, another objective for the training alone.
"""

SIZE = Param("22m", type="string", enum=list(SIZES), description="size of the embedder: its usual values")
JUDGE = Param(None, type=["null", "string"], section="check_tuples", description="model that checks (left empty: llm)")
WRITE = form("write_instructions", "sample_rate", "splits")
LLM = form("write_instructions", *BY_CHAT, names={"temperature": "llm_temperature"})
CHECK = form("check_tuples", "n_distractors")
TRAIN = form("follow_instructions", "backbone", "start_from", "n_negatives", "plain_rows", *OF_A_STAGE, *OF_ALL_STAGES)
RULES = form("judge_instructions", "rules")
SYSTEMS = form("evaluate_retriever", "systems")
FORMS = (WRITE, LLM, CHECK, TRAIN, RULES)

with DAG(
    "follow_instructions",
    description="pairs -> an embedder that follows instructions",
    schedule=None,
    max_active_runs=1,
    deadline=within(hours=96),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "training"],
    doc_md=DOC,
    params={"size": SIZE, "judge": JUDGE} | SYSTEMS.params | batch_field("write_instructions") | fields(*FORMS),
) as dag:
    asked, size, batch = LLM.values(dag), {"size": dag.param("size")}, dag.param("batch")
    chosen = TRAIN.values(dag) | size
    read = pin_versions(pairs="mtp", passages="passages", follow_instructions=(chosen, ("tuples",)))
    start_inputs = read.pop("follow_instructions")
    instructed_pairs = step(
        "write_instructions", inputs={"pairs": read["pairs"]}, params=WRITE.values(dag) | asked, ahead=batch
    )
    poisoned = step("poison_tuples", inputs={"pairs": instructed_pairs}, params=asked, ahead=batch)
    judged_by = asked | {"llm": "{{ params.judge or params.llm or '' }}"}
    checked = step("check_tuples", inputs={"tuples": poisoned}, params=CHECK.values(dag) | judged_by, ahead=batch)
    trained = step("follow_instructions", inputs=start_inputs | {"tuples": checked}, params=chosen)
    judged_set = {"set_name": QUESTIONS}
    queries = step("judge_queries", inputs=read, params=judged_set, emits=False)
    instructed = {"passages": read["passages"], "queries": queries}
    both = step("judge_instructions", inputs=instructed, params=RULES.values(dag) | judged_set, emits=False)
    compared = size | judged_set | SYSTEMS.values(dag) | {"backbone": form_value("follow_instructions", "backbone")}
    given_to = {
        "queries": both,
        "passages": read["passages"],
        "models": [start_inputs["init"], trained],
        "embeddings": [],
    }
    scores = step("evaluate_instructions", inputs=given_to, params=compared, emits=False)
    fold_lineage(scores)
