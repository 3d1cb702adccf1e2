"""An embedder learns how a keyword ranking orders a corpus: listwise, from short lists of the ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, RANK_LISTS
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.models.start import EmbeddingStartParams, StartFrom
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.examples import block
from pipeline_tasks.training.data.prompting import query_columns, with_passage_prefix
from pipeline_tasks.training.data.split_rows import n_rows, of_split, sources
from pipeline_tasks.training.objectives import AnyObjective
from pipeline_tasks.training.params import TrainParams, Unit
from pipeline_tasks.training.pretrain import dev_set
from pipeline_tasks.training.stage import StageRows, StartingPoint, folder_of_start, train_and_export

_COLUMNS = ["query", "intent", "passages", "scores"]


class AdaptToCorpusParams(EmbeddingStartParams, TrainParams):
    """Hyperparameters of an adaptation; a batch is of lists."""

    stage: ClassVar[StageName] = "corpus"

    objective: AnyObjective = Field(
        "list_net",
        validate_default=True,
        description="loss function: list_net, list_mle, or JSON of name and parameters",
    )
    start_from: StartFrom = ()


@step(
    reads={
        "lists": RANK_LISTS,
        "queries": From(PAIRS, "mtp/extracted"),
        "init": From(None, "{item}", each="start_from", optional=True),
        **judged_dev.READS,
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/corpus",
    version="5",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def adapt_to_corpus(inputs: Inputs, params: AdaptToCorpusParams, run: Run) -> Path:
    """Train an embedder to score each list as its ranker does; it is asked as it was before.

    Checkpoints are chosen on the development queries, which are to find the passage that they are from; where none is
    as good as the embedder that it starts from, that one is the result. Without development queries the last one is.

    Source: BMEmbed 3.3, ListNet with the target softmax(score / alpha); its appendix C for ListMLE. Departures: cosines
    are divided by a temperature, a step learns from several lists, and scores are without BM25's factor k1 + 1, so that
    the paper's alpha of 1 is 0.45 here; where it trains adapters of rank 16, all weights train, unless ``lora_rank``
    says so.

    Raises:
        InputError: there are no lists to train on.
    """
    lists, queries = inputs["lists"], inputs["queries"]
    run.count("lists", n_lists := n_rows(lists, "train"))
    run.count("dev_queries", judged_dev.n_queries(inputs, queries))
    if not n_lists:
        raise InputError(f"{lists.manifest.ref} has no list to train on: its queries are all of held-out documents")
    folder, origin = folder_of_start(inputs, params, run)
    found = layout_of(folder)
    layout = replace(found, max_length=params.max_length)
    card = {
        "name": f"{params.size} corpus",
        "summary": "Embedder adapted to a corpus by keyword rankings of its passages.",
        **origin,
        "data": str(lists.manifest.ref),
    }
    rows = stage_rows(inputs, params, layout)
    return train_and_export(rows, StartingPoint(folder, found), params, run, card, layout)


def stage_rows(inputs: Inputs, params: AdaptToCorpusParams, layout: Layout) -> StageRows:
    """Rows of the stage, to learn from as ``layout`` says."""
    train = partial(training_rows, inputs["lists"], layout, params.unit)
    return StageRows.of(inputs, train, partial(dev_set, inputs["queries"]))


def training_rows(lists: Version, layout: Layout, unit: Unit = "source") -> Iterator[pa.Table]:
    """A row for each list, asked as ``layout`` says: its first passage, the others, and the scores of all."""
    for rows in of_split(lists, _COLUMNS, "train"):
        first = pc.list_element(pc.cast(rows["passages"], pa.list_(pa.string())), 0)
        positives = with_passage_prefix(first, layout)
        others = with_passage_prefix(pc.list_slice(rows["passages"], 1), layout)
        scores, of = rows["scores"].to_pylist(), sources(rows, unit, "")
        yield block(positives=positives, negatives=others, targets=scores, sources=of, **query_columns(rows, layout))
