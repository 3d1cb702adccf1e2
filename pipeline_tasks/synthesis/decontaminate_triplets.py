"""Contamination, of triplets of others: what the gate of pairs refuses, no other way leads past it."""

from __future__ import annotations

from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, PAIRS
from pipeline_tasks.synthesis.decontaminate_pairs import EVALUATION_SETS, DecontaminatePairsParams, refuse_copies


class DecontaminateTripletsParams(DecontaminatePairsParams):
    """As for pairs, and which triplets."""

    name: str = Field("triplets", description="of the dataset mtt/own/<name>")


@step(
    reads={
        "triplets": From(INSTRUCTED_TRIPLETS, "mtt/own/{name}"),
        "held_out": From(PAIRS, "mtp", optional=True),
        **EVALUATION_SETS,
    },
    writes=INSTRUCTED_TRIPLETS,
    kind="reduce",
    dataset="mtt/own/{name}/checked",
    keeps=("triplets",),
)
def decontaminate_triplets(inputs: Inputs, params: DecontaminateTripletsParams, run: Run) -> None:
    """Refuse a triplet of ``read_triplets`` or ``read_classes`` whose query or positive is a copy of what is evaluated.

    Held-out queries are those of ``mtp``, where it is there. A text that a task or an id was added to is no exact copy,
    but one of 13 words in a row, or near. Reasons, counters and limits are those of
    :func:`~pipeline_tasks.synthesis.decontaminate_pairs.decontaminate_pairs`.

    Raises:
        InputError: more than the share ``max_contaminated`` would be refused, and more than ten triplets.
    """
    refuse_copies(inputs, params, run, of="triplets", held_out="held_out")
