"""Contamination, of queries about events: the gate of all pairs before an embedder is adapted by them."""

from __future__ import annotations

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.synthesis.decontaminate_pairs import EVALUATION_SETS, DecontaminatePairsParams, refuse_copies


@step(
    reads={
        "pairs": From(PAIRS, "mtp/events"),
        "held_out": From(PAIRS, "mtp", optional=True),
        **EVALUATION_SETS,
    },
    writes=PAIRS,
    kind="reduce",
    dataset="mtp/events/checked",
    keeps=("pairs",),
    version="4",
)
def decontaminate_event_queries(inputs: Inputs, params: DecontaminatePairsParams, run: Run) -> None:
    """Refuse a query that is a copy of what a model is evaluated with, or whose passage answers such a query.

    Held-out queries are those of ``mtp``, on which models are scored, where it is there, and any of these pairs' own.
    Reasons, counters and limits are those of :func:`~pipeline_tasks.synthesis.decontaminate_pairs.decontaminate_pairs`.

    Raises:
        InputError: more than the share ``max_contaminated`` would be refused, and more than ten pairs.
    """
    refuse_copies(inputs, params, run, held_out=("pairs", "held_out"))
