"""Stage 2: contrastive pre-training of a backbone on query and positive pairs, with in-batch negatives."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, added, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.model_files import object_in
from pipeline_tasks.models.sizes import StageName, adapts, get_size
from pipeline_tasks.models.start import TrainedStartParams, judging_layers
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.cloze import ClozePair, cloze_pairs
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.prompting import general_prefixes, query_columns, with_passage_prefix
from pipeline_tasks.training.data.split_rows import n_rows, n_training_rows, of_split, sources
from pipeline_tasks.training.params import TrainParams, resolved
from pipeline_tasks.training.stage import StageRows, StartingPoint, folder_of_start, train_and_export

log = logging.getLogger(__name__)

View = Literal["source", "written", "restated"]
"""How a pair is read: its query finds its source passage, or its written positive; or the latter finds the former."""

_COLUMNS = ["query", "intent", "passage_id", "passage", "positive", "origin"]
_SIDES: dict[View, tuple[str, str]] = {
    "source": ("query", "passage"),
    "written": ("query", "positive"),
    "restated": ("positive", "passage"),
}
CLOZE = "cloze"


def _adapted(chosen: dict[str, Any]) -> tuple[str, ...]:
    return (f"model/{chosen['size']}/adapt",) if adapts(chosen["size"], chosen["causal"]) else ()


def _in_order(views: tuple[View, ...]) -> tuple[View, ...]:
    return tuple(view for view in get_args(View) if view in views)


class PretrainParams(TrainedStartParams, TrainParams):
    """Hyperparameters of pre-training."""

    stage: ClassVar[StageName] = "pretrain"

    in_batch: Literal[True] = Field(True, description="in-batch negatives: pairs have no others")
    reset_layers: int = resolved(
        ge=0, description="top backbone layers re-initialised as identity; empty: those of a cross-encoder's trunk"
    )
    views: Annotated[tuple[View, ...], AfterValidator(_in_order)] = added(
        ("source", "written"),
        min_length=1,
        description="rows per pair: source: query, passage; written: query, positive; restated: positive, passage",
    )
    cloze_from: tuple[str, ...] = Field(
        (), description="passages for the inverse cloze task: sentences as queries, for a small corpus"
    )
    causal: bool = Field(False, description="keep causal attention: skip adapt_backbone (ablation of the paper)")
    start_from: tuple[str, ...] = Field(
        default_factory=_adapted,
        max_length=1,
        description="model to start from; empty: the adapted decoder, the backbone",
    )
    cloze_sentences: int = Field(2, ge=1, description="inverse cloze queries per passage")

    @model_validator(mode="before")
    @classmethod
    def _resolve_layers(cls, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("reset_layers") is not None:
            return given
        size = given.get("size") or cls.model_fields["size"].default
        learned = given.get("start_from") or adapts(size, causal=False)
        judging = 0 if learned else judging_layers(given.get("backbone") or get_size(size).backbone)
        return given | {"reset_layers": judging}

    @model_validator(mode="after")
    def _check_causal(self) -> PretrainParams:
        if self.causal and not (get_size(self.size).decoder or self.backbone or self.start_from):
            raise ValueError(f"causal=true, and size={self.size!r} has an encoder, which always attends both ways")
        return self

    @model_validator(mode="after")
    def _check_layers(self) -> PretrainParams:
        if self.reset_layers and self.start_from:
            raise ValueError(
                f"reset_layers={self.reset_layers} is for a backbone, and {self.start_from[0]} has learned with all "
                "its layers: leave reset_layers out, or start_from"
            )
        if self.reset_layers and self.lora_rank and self.keep_adapters:
            raise ValueError(
                f"keep_adapters=true, and adapters that are trained with reset_layers={self.reset_layers} fit no model "
                "that anybody has: choose reset_layers=0, or keep the merged model alone"
            )
        return self


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "cloze": From(PASSAGES, "{item}", each="cloze_from"),
        "init": From(None, "{item}", each="start_from", optional=True),
        **judged_dev.READS,
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/pretrain",
    version="7",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def pretrain(inputs: Inputs, params: PretrainParams, run: Run) -> Path:
    """Train the backbone to find a query's source passage and its generated positive, without instructions.

    Each training pair gives a row for each of ``views``: by default two, one per positive, the passage from the PDF and
    the one that the LLM wrote. One of a general-domain set or of your own, which has no passage of ours as its source,
    gives one, whatever the views.
    Checkpoints are chosen on the queries of dev documents; a backbone that is a finished embedder competes as its own
    files want it asked, and the trained model pools as it does and keeps what that one puts before all queries or all
    passages.

    Source: DMRetriever 3.3, Equation 2, Algorithm 1 lines 5 to 7. Departures: the paper trains on one positive, the
    written one, which is ``views=["written"]``; rows of one query are kept in different batches; the pairs of
    :mod:`~pipeline_tasks.training.data.cloze`, off by default, are ours.

    Raises:
        InputError: a decoder is neither adapted nor to stay causal, or it is both, there are no training pairs, or no
            training passages in one of ``cloze_from``.
    """
    if adapts(params.size, params.causal) and "init" not in inputs:
        raise InputError(f"size={params.size!r} has a decoder: run adapt_backbone first, or set causal=true")
    pairs, cloze = inputs["pairs"], inputs.each("cloze")
    run.count("training_queries", n_queries := n_rows(pairs, "train"))
    run.count("dev_queries", judged_dev.n_queries(inputs, pairs))
    if not n_queries:
        raise InputError(f"{pairs.manifest.ref} has no training pairs; sample more passages in write_needs")
    n_training_rows(cloze, "cloze_from")
    run.count("cloze_rows", sum(map(len, _cloze_rows(cloze, params.cloze_sentences))))
    trunk, origin = folder_of_start(inputs, params, run)
    if params.causal and object_in(trunk / "config.json").get("is_causal") is False:
        raise InputError(
            f"causal=true, and the tokens of {origin.get('initialised from') or origin['backbone']} attend both ways, "
            "as its own will: leave causal out, or start from the decoder as it came"
        )
    card = {
        "name": f"{params.size} pretrain",
        "summary": "Dense retriever after contrastive pre-training on domain pairs.",
        **origin,
        "data": str(pairs.manifest.ref),
    }
    if params.reset_layers and "init" in inputs:
        log.info("reset_layers=%d is for a backbone: a model to start from keeps its layers", params.reset_layers)
    elif params.reset_layers:
        from pipeline_tasks.training.model.reset import reset_top_layers

        trunk = reset_top_layers(trunk, run.scratch / "trunk", params.reset_layers)
    found = layout_of(trunk)
    prefixes = general_prefixes(found)
    layout = replace(
        found,
        max_length=params.max_length,
        prefixes=prefixes,
        pools_prefix=found.pools_prefix or not prefixes,
    )
    start = StartingPoint.of(trunk, found, layout)
    return train_and_export(stage_rows(inputs, params, layout), start, params, run, card, layout)


def stage_rows(inputs: Inputs, params: PretrainParams, layout: Layout) -> StageRows:
    """Rows of the stage, to learn from as ``layout`` says."""
    pairs = inputs["pairs"]
    train = partial(training_rows, pairs, inputs.each("cloze"), params, layout)
    return StageRows.of(inputs, train, partial(dev_set, pairs))


def training_rows(pairs: Version, cloze: list[Version], params: PretrainParams, layout: Layout) -> Iterator[pa.Table]:
    """Rows as a model without instructions is asked: each query behind the one prefix that there may be."""
    prefix = layout.query_prefix(None)
    for rows in _rows(pairs, cloze, params):
        queries = pc.binary_join_element_wise(prefix, rows["query"], "")
        prompts, pooled, of = [prefix] * len(rows), layout.pools_prefix, rows["source"]
        positives, answers = with_passage_prefix(rows["positive"], layout), with_passage_prefix(rows["answers"], layout)
        yield block(queries, positives, prompts=prompts, pools_prompts=pooled, answers=answers, sources=of)


def _rows(pairs: Version, cloze: list[Version], params: PretrainParams) -> Iterator[pa.Table]:
    """A pair's rows stand together, in the order of its views.

    No wrong answer are a query's own words, the pair's passage and positive, and what cloze pairs leave of the former.
    """
    for rows in of_split(pairs, _COLUMNS, "train"):
        has_source = pc.and_(pc.not_equal(rows["passage"], ""), pc.not_equal(rows["passage"], rows["positive"]))
        has_source = has_source.fill_null(False).to_numpy()
        gives = {view: has_source if view in params.views else np.zeros(len(rows), bool) for view in _SIDES}
        gives["written"] = gives["written"] | ~has_source
        place, view = np.nonzero(np.stack(list(gives.values()), axis=1))
        of = sources(rows, params.unit, rows["origin"])
        asked_with, answered_by = (_chosen(rows, side, place, view) for side in zip(*_SIDES.values(), strict=True))
        cut = _cut(rows, "passage", params.cloze_sentences) if cloze else [[]] * len(rows)
        own = zip(*(rows[name].to_pylist() for name in ("passage", "positive")), strict=True)
        known = [
            [*filter(None, texts), *(one.positive for one in pairs)] for texts, pairs in zip(own, cut, strict=True)
        ]
        answers = [[query, *known[row]] for query, row in zip(asked_with.to_pylist(), place, strict=True)]
        yield block(asked_with, answered_by, answers=answers, sources=of.take(place))
    yield from _cloze_rows(cloze, params.cloze_sentences, "all" if params.unit == "all" else CLOZE)


def _chosen(rows: pa.Table, columns: Sequence[str], place: np.ndarray, view: np.ndarray) -> pa.ChunkedArray:
    """Of each row at ``place`` the text in the column of its view."""
    texts = pa.chunked_array([chunk for name in columns for chunk in rows[name].chunks], pa.string())
    return texts.take(place + len(rows) * view)


def _cloze_rows(cloze: list[Version], n_sentences: int, source: str = CLOZE) -> Iterator[pa.Table]:
    for version in cloze:
        for rows in of_split(version, ["passage_id", "text"], "train"):
            cut = _cut(rows, "text", n_sentences)
            known = [
                [pair.query, text, *(other.positive for other in pairs)]
                for text, pairs in zip(rows["text"].to_pylist(), cut, strict=True)
                for pair in pairs
            ]
            found = [pair for pairs in cut for pair in pairs]
            queries, positives = [pair.query for pair in found], [pair.positive for pair in found]
            yield block(queries, positives, answers=known, sources=[source] * len(found))


def _cut(rows: pa.Table, passages: str, n_sentences: int) -> list[list[ClozePair]]:
    """Of each row the cloze pairs of its passage."""
    ids_and_texts = zip(rows["passage_id"].to_pylist(), rows[passages].to_pylist(), strict=True)
    return [list(cloze_pairs(*named, n_sentences)) for named in ids_and_texts]


def dev_set(pairs: Version, layout: Layout) -> Examples:
    """Development queries over their source passages, or over their positives, and over everything that was written.

    What was written for a query is an answer of it, too, and no wrong one.
    """
    found = (with_passage_prefix(rows["positive"], layout) for rows in of_split(pairs, ["positive"], "dev"))
    written = [text for texts in found for text in texts.to_pylist()]
    return Examples(partial(_dev_rows, pairs, layout), written)


def _dev_rows(pairs: Version, layout: Layout) -> Iterator[pa.Table]:
    for rows in of_split(pairs, _COLUMNS, "dev"):
        passages = pc.if_else(pc.equal(rows["passage"], ""), rows["positive"], rows["passage"])
        of = query_columns(rows, layout)
        written = with_passage_prefix(rows["positive"], layout).to_pylist()
        of["answers"] = [[*own, text] for own, text in zip(of["answers"].to_pylist(), written, strict=True)]
        yield block(positives=with_passage_prefix(passages, layout), sources=rows["intent"], **of)
