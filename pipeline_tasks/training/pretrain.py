"""Stage 2: contrastive pre-training of a backbone on query and positive pairs, with in-batch negatives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.models.sizes import StageName, adapts, backbone
from pipeline_tasks.models.use import folder, identity, licences
from pipeline_tasks.training.cloze import cloze_pairs
from pipeline_tasks.training.common import asked, train_and_export
from pipeline_tasks.training.examples import DevSet, TrainingSet
from pipeline_tasks.training.params import TrainParams

_COLUMNS = ["query", "intent", "passage_id", "passage", "positive_id", "positive", "split"]


def _adapted(chosen: dict[str, Any]) -> tuple[str, ...]:
    return (f"model/{chosen['size']}/adapt",) if adapts(chosen["size"], chosen["causal"]) else ()


class PretrainParams(TrainParams):
    """Hyperparameters of pre-training."""

    stage: ClassVar[StageName] = "pretrain"

    in_batch: Literal[True] = Field(True, description="pairs have no other negatives than the batch's passages")
    reset_layers: int = Field(0, ge=0, description="top layers that start as identity: for a trunk of a cross-encoder")
    cloze_from: tuple[str, ...] = Field((), description="passages whose sentences are queries too, for a small corpus")
    causal: bool = Field(False, description="a decoder as it came: no adaptation, no look ahead; the paper's ablation")
    start_from: tuple[str, ...] = Field(
        default_factory=_adapted,
        max_length=1,
        description="model to start from; empty: the adapted decoder, the backbone",
    )
    cloze_sentences: int = Field(2, ge=1, description="such queries per passage")

    def identity(self) -> dict[str, Any]:
        """Hyperparameters and what the backbone's weights are."""
        return super().identity() | {"backbone": identity(backbone(self.size).name)}

    def licences(self) -> dict[str, str]:
        """The licence of the backbone's weights; fine-tuning has it from its first model."""
        return licences(backbone(self.size).name)


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "cloze": From(PASSAGES, "{item}", each="cloze_from"),
        "init": From(None, "{item}", each="start_from", optional=True),
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/pretrain",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def pretrain(inputs: Inputs, params: PretrainParams, run: Run) -> Path:
    """Train the backbone to find a query's source passage and its generated positive, without instructions.

    Each training query gives two rows, one per positive: the passage from the PDF and the one that the LLM wrote.
    Checkpoints are chosen on the queries of dev documents; a backbone that is a finished embedder competes as its own
    files want it asked, and the trained model pools as it does.

    Source: DMRetriever 3.3, Equation 2, Algorithm 1 lines 5 to 7. Departures: the paper trains on one positive, the
    written one; rows of one query are kept in different batches; the pairs of :mod:`~pipeline_tasks.training.cloze`,
    off by default, are ours.

    Raises:
        InputError: a decoder is neither adapted nor to stay causal, or there are no training pairs.
    """
    if adapts(params.size, params.causal) and "init" not in inputs:
        raise InputError(f"size={params.size!r} has a decoder: run adapt_backbone first, or set causal=true")
    rows = inputs["pairs"].table(_COLUMNS).to_pylist()
    train = [row for row in rows if row["split"] == "train"]
    dev = [row for row in rows if row["split"] == "dev"]
    if not train:
        raise InputError(f"{inputs['pairs'].manifest.ref} has no training pairs; sample more passages in write_needs")
    run.count("training_queries", len(train))
    run.count("dev_queries", len(dev))
    examples = _training_set(train, inputs.each("cloze"), params)
    run.count("cloze_rows", len(examples.queries) - 2 * len(train))
    name = backbone(params.size).name
    card = {
        "name": f"{params.size} pretrain",
        "summary": "Dense retriever after contrastive pre-training on domain pairs.",
        "backbone": name,
        "data": str(inputs["pairs"].manifest.ref),
    }
    if "init" in inputs:
        trunk = inputs["init"].lay_out(run.scratch / "init")
        card["initialised from"] = str(inputs["init"].manifest.ref)
    else:
        trunk = folder(name)
    if params.reset_layers:
        from pipeline_tasks.training.reset import reset_top_layers

        trunk = reset_top_layers(trunk, run.scratch / "trunk", params.reset_layers)
    found = layout_of(trunk)
    layout = Layout(found.pooling, params.max_passage_length, append=found.append)
    start = found if (trunk / "modules.json").is_file() else layout
    return train_and_export(examples, partial(_dev_set, dev), (trunk, start), params, run, card, layout)


def _dev_set(rows: list[dict], layout: Layout) -> DevSet:
    queries = asked([row["query"] for row in rows], [row["intent"] for row in rows], layout)
    return DevSet(positive_ids=[row["passage_id"] for row in rows], passages=_passages(rows), **queries)


def _training_set(pairs: list[dict], cloze_from: list[Version], params: PretrainParams) -> TrainingSet:
    queries = [row["query"] for row in pairs for _ in range(2)]
    positive_ids = [row[key] for row in pairs for key in ("passage_id", "positive_id")]
    passages = _passages(pairs)
    for version in cloze_from:
        for row in version.table(["passage_id", "text", "split"]).to_pylist():
            if row["split"] == "train":
                for pair in cloze_pairs(row["passage_id"], row["text"], params.cloze_sentences):
                    queries.append(pair.query)
                    positive_ids.append(pair.positive_id)
                    passages[pair.positive_id] = pair.positive
    return TrainingSet(queries, positive_ids, passages)


def _passages(rows: list[dict]) -> dict[str, str]:
    found = {row["passage_id"]: row["passage"] for row in rows}
    return found | {row["positive_id"]: row["positive"] for row in rows}
