"""What fine-tuning and distillation share: rows of a triplet build, asked with the instruction of their intent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import SCORED_TRIPLETS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.models.registry import SEPARATOR
from pipeline_tasks.models.start import TrainedStartParams
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.prompting import general_prefixes, query_columns, with_passage_prefix
from pipeline_tasks.training.data.split_rows import n_rows, of_split, sources
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.stage import StageRows, StartingPoint, folder_of_start, train_and_export

_COLUMNS = ["query", "intent", "positive", "negatives"]
_SCORES = ["teacher_positive_score", "teacher_negative_scores"]


class TripletParams(TrainParams):
    """Hyperparameters of a training on queries with negatives of their own."""

    n_negatives: int | None = Field(
        None, ge=1, description="hard negatives per query, the first so many; empty: all that were mined"
    )
    in_batch: bool = Field(
        False, description="in-batch negatives, too: the batch's other passages; Equation 4 has none"
    )
    instruct: bool = Field(
        True,
        description="prefix queries with their own instruction or that of their intent; off: the paper's ablation",
    )
    pool_instruction: bool = Field(
        True, description="mean pooling includes the instruction's tokens; a small corpus needs it off"
    )

    def identity(self) -> dict[str, Any]:
        """Hyperparameters and the instructions that queries carry."""
        return super().identity() | {"instructions": self.instructions}

    @cached_property
    def instructions(self) -> dict[str, str]:
        """Intent -> the text put before its queries, read once; none where they carry none."""
        return prompts() if self.instruct else {}


def prompts() -> dict[str, str]:
    """Intent -> the text put before its queries."""
    return {name: intent.instruction + SEPARATOR for name, intent in load_intents(domain_folder()).items()}


def train_on_triplets(inputs: Inputs, params: TripletParams, run: Run, name: str, summary: str) -> Path:
    """Train ``init`` or a backbone on the rows of ``triplets`` and export the best checkpoint, asked with instructions.

    Where no checkpoint is as good on development queries as the model that it starts from, asked as that one wants to
    be asked, that model is the result.

    Args:
        inputs: ``triplets``, with a teacher's scores or without, perhaps ``init``, and ``further`` builds to train on.
        params: hyperparameters.
        run: its counters tell how it went.
        name: of the model, for its card.
        summary: what it is, for its card.

    Raises:
        InputError: there are no training triplets.
    """
    triplets = inputs["triplets"]
    builds = builds_of(inputs)
    run.count("training_queries", n_queries := sum(n_rows(build, "train") for build in builds))
    run.count("dev_queries", judged_dev.n_queries(inputs, triplets))
    if not n_queries:
        raise InputError(f"{triplets.manifest.ref} has no training rows; label more queries or raise alpha")
    run.count("negatives", sum(_n_negatives(build, params.n_negatives) for build in builds))
    if isinstance(params, TrainedStartParams):
        folder, origin = folder_of_start(inputs, params, run)
    else:
        init = inputs["init"]
        folder, origin = init.lay_out(run.scratch / "init"), {"initialised from": str(init.manifest.ref)}
    card = {
        "name": name,
        "summary": summary,
        **origin,
        "data": ", ".join(str(build.manifest.ref) for build in builds),
    }
    found = layout_of(folder)
    prefixes = general_prefixes(found)
    if params.instruct:
        prefixes = params.instructions | {use: text for use, text in prefixes.items() if use == "passage"}
    layout = replace(
        found,
        max_length=params.max_length,
        prefixes=prefixes,
        pools_prefix=params.pool_instruction if params.instruct else found.pools_prefix or not prefixes,
        needs_intent=params.instruct,
    )
    rows = stage_rows(inputs, params, layout)
    return train_and_export(rows, StartingPoint.of(folder, found, layout), params, run, card, layout)


def stage_rows(inputs: Inputs, params: TripletParams, layout: Layout) -> StageRows:
    """Rows of the stage, to learn from as ``layout`` says."""
    train = partial(training_rows, builds_of(inputs), params, layout)
    return StageRows.of(inputs, train, partial(dev_set, inputs["triplets"], params))


def builds_of(inputs: Inputs) -> list[Version]:
    """``triplets`` and ``further``, each once: iterations of a schedule share the latter, and one may be their own."""
    builds = [inputs["triplets"], *inputs.each("further")]
    return list({build.manifest.ref: build for build in builds}.values())


def training_rows(builds: Sequence[Version], params: TripletParams, layout: Layout) -> Iterator[pa.Table]:
    """A row for each training query of each build, asked as ``layout`` says, its negatives as ``params`` want."""
    for build in builds:
        yield from _training_rows(build, params, layout)


def _training_rows(triplets: Version, params: TripletParams, layout: Layout) -> Iterator[pa.Table]:
    taught, n_negatives = triplets.manifest.rows_schema == SCORED_TRIPLETS.name, params.n_negatives
    for rows in of_split(triplets, _columns(triplets, params) + (_SCORES if taught else []), "train"):
        negatives = rows["negatives"] if n_negatives is None else pc.list_slice(rows["negatives"], 0, n_negatives)
        targets = _scores(rows, n_negatives) if taught else None
        positives, negatives = with_passage_prefix(rows["positive"], layout), with_passage_prefix(negatives, layout)
        queries, of = query_columns(rows, layout), sources(rows, params.unit, triplets.manifest.dataset)
        yield block(positives=positives, negatives=negatives, targets=targets, sources=of, **queries)


def _columns(triplets: Version, params: TripletParams) -> list[str]:
    return [*_COLUMNS, "instruction"] if params.instruct and triplets.has("instruction") else _COLUMNS


def _n_negatives(triplets: Version, most: int | None) -> int:
    """Of all training rows together."""
    lengths = (pc.list_value_length(rows["negative_ids"]) for rows in of_split(triplets, ["negative_ids"], "train"))
    return sum(min(length, most or length) for some in lengths for length in some.to_pylist())


def _scores(rows: pa.Table, n_negatives: int | None) -> list[list[float]]:
    """A teacher's scores of each row's positive and negatives."""
    columns = (rows[name].to_pylist() for name in _SCORES)
    return [[positive, *negatives[:n_negatives]] for positive, negatives in zip(*columns, strict=True)]


def dev_set(triplets: Version, params: TripletParams, layout: Layout) -> Examples:
    """Development queries over their positives and all their negatives."""
    return Examples(partial(_dev_rows, triplets, params, layout))


def _dev_rows(triplets: Version, params: TripletParams, layout: Layout) -> Iterator[pa.Table]:
    for rows in of_split(triplets, _columns(triplets, params), "dev"):
        positives = with_passage_prefix(rows["positive"], layout)
        negatives = with_passage_prefix(rows["negatives"], layout)
        yield block(positives=positives, negatives=negatives, sources=rows["intent"], **query_columns(rows, layout))
