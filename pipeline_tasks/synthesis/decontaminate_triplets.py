"""Contamination, of triplets of others: what the gate of pairs refuses, no other way leads past it."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, PAIRS
from pipeline_tasks.models.registry import SEPARATOR
from pipeline_tasks.synthesis.decontaminate_pairs import EVALUATION_SETS, DecontaminatePairsParams, refuse_copies


class DecontaminateTripletsParams(DecontaminatePairsParams):
    """As for pairs, and which triplets."""

    name: str = Field("triplets", description="name of the dataset mtt/own/<name>")


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
    version="4",
)
def decontaminate_triplets(inputs: Inputs, params: DecontaminateTripletsParams, run: Run) -> None:
    """Refuse a triplet of ``read_triplets`` or ``read_classes`` whose query or positive is a copy of what is evaluated.

    Held-out queries are those of ``mtp``, where it is there. Texts are looked at as they were read, without the task or
    the id that was added to them. Reasons, counters and limits are those of
    :func:`~pipeline_tasks.synthesis.decontaminate_pairs.decontaminate_pairs`.

    Raises:
        InputError: more than the share ``max_contaminated`` would be refused, and more than ten triplets.
    """
    refuse_copies(inputs, params, run, of="triplets", held_out=("held_out",), as_read=_as_read)


def _as_read(triplets: pa.Table) -> pa.Table:
    """Queries and positives without the id that ``read_classes`` adds or the task that ``read_triplets`` does.

    Versions of ``read_classes`` before its fourth have the id at the end.
    """
    columns = (triplets[name].to_pylist() for name in ("query_id", "instruction", "query", "positive"))
    plain = [
        [text.removeprefix(f"{name} ").removesuffix(f" {name}") for text in (query, own)]
        for name, task, query, positive in zip(*columns, strict=True)
        for own in [positive.removeprefix(f"{task}{SEPARATOR}")]
    ]
    for at, name in enumerate(("query", "positive")):
        place = triplets.column_names.index(name)
        triplets = triplets.set_column(place, name, pa.array([texts[at] for texts in plain], pa.string()))
    return triplets
