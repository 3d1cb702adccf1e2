"""An embedder learns that instructions decide what answers a query: from tuples with poison for each of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.models.start import EmbeddingStartParams, StartFrom
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.prompting import query_columns, with_passage_prefix
from pipeline_tasks.training.data.split_rows import n_rows, of_split, sources
from pipeline_tasks.training.objectives import AnyObjective
from pipeline_tasks.training.params import TrainParams, Unit
from pipeline_tasks.training.stage import StageRows, StartingPoint, folder_of_start, train_and_export

_INSTRUCTIONS, _QUERIES = ("instruction", "poisoned_instruction"), ("query", "poisoned_query")
_ANSWERS = {
    ("instruction", "query"): "positive",
    ("poisoned_instruction", "query"): "instruction_passage",
    ("instruction", "poisoned_query"): "query_passage",
}
"""Which passage answers a query of a tuple under an instruction of it; none answers where both are poisoned."""
_OF_QUERY = {"positive": "query", "instruction_passage": "query", "query_passage": "poisoned_query"}
"""Which query a passage of a tuple answers where there is no instruction."""
PLAIN = "plain"
"""What a mixture calls the rows without instruction; those with one have an empty name."""
_Texts = dict[tuple[str, str], list[str]]
"""(instruction, query) -> texts of each tuple."""
_COLUMNS = ["intent", *_INSTRUCTIONS, *_QUERIES, *_ANSWERS.values()]


class FollowInstructionsParams(EmbeddingStartParams, TrainParams):
    """Hyperparameters; a tuple is three rows, and with ``plain_rows`` six."""

    stage: ClassVar[StageName] = "instructions"

    objective: AnyObjective = Field(
        "instruction_contrast",
        validate_default=True,
        description="loss function: instruction_contrast, info_nce, or JSON of name and parameters",
    )
    epochs: int = Field(2, ge=1, description="passes over the training rows")
    in_batch: bool = Field(True, description="in-batch negatives: the other passages of the batch are negatives too")
    n_negatives: int = Field(2, ge=0, le=2, description="negatives per row, of the tuple's two other passages")
    plain_rows: bool = Field(True, description="add each tuple's queries without instruction as rows, too")
    start_from: StartFrom = ()


@step(
    reads={
        "tuples": From(TUPLES, "tuples/checked"),
        "init": From(None, "{item}", each="start_from", optional=True),
        **judged_dev.READS,
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/instructions",
    version="9",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def follow_instructions(inputs: Inputs, params: FollowInstructionsParams, run: Run) -> Path:
    """Train an embedder so that its ranking changes with the instruction before a query.

    The model is asked with an instruction where it has a place for one, else before the query with a colon; one encoder
    embeds all, pooled as the model that it starts from: over the instruction too, or without it. Checkpoints are chosen
    on development tuples, each of whose questions is to find its own passage among all of them, or on a judged set;
    where none is as good as the start, that is the result. Without development tuples the last one is.

    Source: InF-IR 5, F.1 and, for two epochs, Table 4. Departures: an instruction and its query are joined by a colon;
        beside its three questions a tuple brings its queries without instruction (``plain_rows``), since the model is
        asked so as well, and may forget what it does not see: a batch of as many rows is of half as many tuples.

    Raises:
        InputError: there are no tuples to train on.
    """
    tuples = inputs["tuples"]
    run.count("tuples", n_tuples := n_rows(tuples, "train"))
    run.count("dev_queries", judged_dev.n_queries(inputs, tuples))
    if not n_tuples:
        raise InputError(f"{tuples.manifest.ref} has no tuple to train on: write more, or look at its rejects")
    folder, origin = folder_of_start(inputs, params, run)
    found = layout_of(folder)
    layout = replace(found, max_length=params.max_length, needs_intent=False)
    card = {
        "name": f"{params.size} instructions",
        "summary": "Embedder whose ranking follows the instruction of a query.",
        **origin,
        "data": str(tuples.manifest.ref),
        "asked": layout.query_prefix(None, "{instruction}") + "{query}",
    }
    rows = stage_rows(inputs, params, layout)
    return train_and_export(rows, StartingPoint(folder, found), params, run, card, layout)


def stage_rows(inputs: Inputs, params: FollowInstructionsParams, layout: Layout) -> StageRows:
    """Rows of the stage, to learn from as ``layout`` says."""
    tuples = inputs["tuples"]
    train = partial(training_rows, tuples, layout, params.n_negatives, params.unit, plain=params.plain_rows)
    return StageRows.of(inputs, train, partial(dev_set, tuples))


def training_rows(
    tuples: Version,
    layout: Layout,
    n_negatives: int = 2,
    unit: Unit = "source",
    split: str = "train",
    plain: bool = False,
) -> Iterator[pa.Table]:
    """Three rows for each tuple of a split, with ``plain`` six; see :func:`rows_of` and :func:`plain_rows_of`."""
    for rows in of_split(tuples, _COLUMNS, split):
        yield from rows_of(rows, layout, n_negatives, unit)
        if plain:
            yield from plain_rows_of(rows, layout, n_negatives, unit)


def rows_of(tuples: pa.Table, layout: Layout, n_negatives: int = 2, unit: Unit = "source") -> Iterator[pa.Table]:
    """Three rows for each tuple, one for each of its questions that a passage answers.

    A row's positive is that passage; its negatives are the other two; what it is told apart from are the tuple's other
    instruction with its query, and the tuple's other query with either instruction.
    """
    texts, prompts, passages = *_instructed_texts(tuples, layout), _passages(tuples, layout)
    for (instruction, query), answer in _ANSWERS.items():
        same = [(other, query) for other in _INSTRUCTIONS if other != instruction]
        others = _of_other_query(query)
        negatives = [passages[name] for name in passages if name != answer][:n_negatives]
        yield block(
            queries=texts[instruction, query],
            prompts=prompts[instruction, query],
            pools_prompts=layout.pools_prefix,
            positives=passages[answer],
            negatives=_by_row(negatives, len(tuples)),
            other_instructions=_by_row([texts[one] for one in same], len(tuples)),
            other_queries=_by_row([texts[one] for one in others], len(tuples)),
            other_prompts=_by_row([prompts[one] for one in (*same, *others)], len(tuples)),
            sources=sources(tuples, unit, ""),
            tuples=_names(texts),
        )


def plain_rows_of(tuples: pa.Table, layout: Layout, n_negatives: int = 2, unit: Unit = "source") -> Iterator[pa.Table]:
    """Three rows for each tuple: its queries without instruction, with each passage that answers one.

    Both passages that answer the tuple's query are known answers of it, and so no negatives for each other. There is no
    other instruction; the tuple's other query under either of its own is what a row is told apart from.
    """
    texts, prompts, passages = *_instructed_texts(tuples, layout), _passages(tuples, layout)
    for answer, query in _OF_QUERY.items():
        plain = query_columns(tuples.select(["intent", query]).rename_columns(["intent", "query"]), layout)
        others = _of_other_query(query)
        negatives = [passages[name] for name in passages if _OF_QUERY[name] != query][:n_negatives]
        yield block(
            queries=plain["queries"],
            prompts=plain["prompts"],
            pools_prompts=layout.pools_prefix,
            positives=passages[answer],
            negatives=_by_row(negatives, len(tuples)),
            other_queries=_by_row([texts[one] for one in others], len(tuples)),
            other_prompts=_by_row([prompts[one] for one in others], len(tuples)),
            sources=sources(tuples, unit, PLAIN),
            tuples=_names(texts),
        )


def dev_set(tuples: Version, layout: Layout) -> Examples:
    """The questions of development tuples over all their passages; a source is an intent, which count alike."""
    return Examples(partial(training_rows, tuples, layout, unit="intent", split="dev"))


def _instructed_texts(tuples: pa.Table, layout: Layout) -> tuple[_Texts, _Texts]:
    """(instruction, query) -> how a model is asked, and what of that is the instruction."""
    found = {(i, q): query_columns(_query_rows(tuples, i, q), layout) for i in _INSTRUCTIONS for q in _QUERIES}
    texts, prompts = ({one: of[name] for one, of in found.items()} for name in ("queries", "prompts"))
    return texts, prompts


def _passages(tuples: pa.Table, layout: Layout) -> dict[str, list[str]]:
    return {name: with_passage_prefix(tuples[name], layout).to_pylist() for name in _ANSWERS.values()}


def _of_other_query(query: str) -> list[tuple[str, str]]:
    return [(instruction, other) for instruction in _INSTRUCTIONS for other in _QUERIES if other != query]


def _names(texts: _Texts) -> list[str]:
    """Of each tuple one that its rows share: all that it asks."""
    return ["\n".join(asked) for asked in zip(*texts.values(), strict=True)]


def _query_rows(rows: pa.Table, instruction: str, query: str) -> pa.Table:
    columns: dict[str, Any] = {"intent": rows["intent"], "instruction": rows[instruction], "query": rows[query]}
    return pa.table(columns)


def _by_row(columns: list[list[str]], n: int) -> list[list[str]]:
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * n
