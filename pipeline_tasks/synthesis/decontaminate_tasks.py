"""Contamination, of FRet's queries: the gate of all pairs before a model reads them."""

from __future__ import annotations

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PAIRS
from pipeline_tasks.synthesis.decontaminate_pairs import EVALUATION_SETS, DecontaminatePairsParams, refuse_copies


@step(
    reads={
        "pairs": From(INSTRUCTED_PAIRS, "mtp/fret"),
        "held_out": From(PAIRS, "mtp", optional=True),
        **EVALUATION_SETS,
    },
    writes=INSTRUCTED_PAIRS,
    kind="reduce",
    dataset="mtp/fret/checked",
    keeps=("pairs",),
    version="4",
)
def decontaminate_tasks(inputs: Inputs, params: DecontaminatePairsParams, run: Run) -> None:
    """Refuse a query whose text, or whose passage, is a copy of what a model is evaluated with.

    Held-out queries are those of ``mtp``, on which models are scored, where it is there, and any of these pairs' own.
    Reasons, counters and limits are those of :func:`~pipeline_tasks.synthesis.decontaminate_pairs.decontaminate_pairs`.

    Raises:
        InputError: more than the share ``max_contaminated`` would be refused, and more than ten pairs.
    """
    refuse_copies(inputs, params, run, held_out=("pairs", "held_out"))
