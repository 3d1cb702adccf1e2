"""What the demo asks of each DAG, in order."""

from __future__ import annotations

from typing import Any

from pipeline_tasks.demo.writer import Writer
from pipeline_tasks.models.sizes import get_size
from pipeline_tasks.models.use import REFERENCE_MODELS

Runs = dict[str, dict[str, Any]]
SIZE = "22m"
FUSION = f"rrf({','.join(REFERENCE_MODELS)})"
FOR_TWO_CORES: Runs = {
    "22m": {
        "n_negatives": 2,
        "pretrain_graph_tokens": 8192,
        "finetune_graph_tokens": 16384,
        "finetune_in_batch": True,
        "finetune_instruct": False,
    },
    "33m": {
        "max_query_length": 64,
        "max_passage_length": 128,
        "pretrain_epochs": 7,
        "pretrain_batch_size": 16,
        "pretrain_learning_rate": 1e-4,
        "pretrain_evals_per_epoch": 1,
        "finetune_batch_size": 8,
        "finetune_in_batch": True,
        "finetune_pool_instruction": False,
    },
}
"""What two cores and a few hundred pairs want besides the size's own values. Those of 22m are for such data: it has
fewer negatives, too few rows to learn instructions from, and a whole batch in memory, so that nothing is encoded twice.
Those of 33m are for a GPU and a large corpus."""


def corpus_runs(writer: Writer) -> Runs:
    """From PDFs to pairs. Judged questions do the testing, so no other document is held out for that."""
    held_out = {"test_fraction": 0, "dev_fraction": 0.5, "dev_documents": 2}
    asked = {"llm": writer.llm, "splits": ["train", "dev"]} | writer.asked
    return {"corpus_refresh": {"max_tokens": 128, "delay_s": 0} | held_out, "synthesize_pairs": asked}


def training_runs(size: str) -> Runs:
    """From pairs to a model and its scores."""
    chosen = FOR_TWO_CORES.get(size, {})
    mined = {"alphas": [str(alpha) for alpha in get_size(size).alphas], "n_negatives": chosen.get("n_negatives")}
    evaluated = {"set_name": "questions", "systems": ["bm25", FUSION]}
    return {"build_triplets": mined, "train_retriever": {"size": size} | evaluated | chosen}
