"""Stage 1, for decoders: attention both ways, and masked words until the model makes use of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field, model_validator

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.ids import digest, unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.encoders.devices import devices_of
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.training.data.split_rows import n_training_rows, of_split
from pipeline_tasks.training.params import OptimiserParams
from pipeline_tasks.training.stage import chosen, count, reported

if TYPE_CHECKING:
    from torch import Tensor

    from pipeline_tasks.encoders.trunk import TrainableEncoder
    from pipeline_tasks.training.data.tokens import Texts
    from pipeline_tasks.training.loop import Report, TrainResult
    from pipeline_tasks.training.parallel.peers import Peers


class AdaptParams(StartParams, OptimiserParams):
    """Hyperparameters of the adaptation."""

    stage: ClassVar[StageName] = "adapt"

    size: str = Field("596m", description="a size with a decoder: 135m, 596m, 4b or 7.6b")
    epochs: int = Field(2, ge=1, description="passes over the texts")
    general_from: tuple[str, ...] = Field((), description="passages of general text to train on as well")
    mask_share: float = Field(0.2, gt=0, lt=1, description="masking rate: fraction of a text's tokens that are masked")
    mask_text: str = Field("_", description="what stands for a masked token where the tokenizer has no mask token")
    dev_passages: int = Field(500, ge=0, description="passages of dev documents for checkpoint selection, at most")

    @model_validator(mode="after")
    def _check_sharding(self) -> AdaptParams:
        if self.sharding == "fsdp" and not self.lora_rank:
            raise ValueError(
                "sharding='fsdp' divides the embeddings, and the head that fills blanks is made of all of them: train "
                "adapters (lora_rank), or set sharding='zero1'"
            )
        return self


@step(
    reads={"passages": PASSAGES, "general": From(PASSAGES, "{item}", each="general_from")},
    writes=None,
    kind="reduce",
    dataset="model/{size}/adapt",
    version="6",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def adapt_backbone(inputs: Inputs, params: AdaptParams, run: Run) -> Path:
    """Let every token of a decoder attend to all others, and train it to fill blanks from both sides.

    Attention both ways is a fact of the saved config (``is_causal: false``): plain transformers,
    sentence-transformers and every later stage load the model so without being told. What is masked, and where the loss
    is taken: :mod:`pipeline_tasks.training.masked`. The checkpoint that fills most blanks of dev passages is kept.

    Source: DMRetriever 3.2, Algorithm 1 lines 1 to 4, appendix I (2 epochs, batches of 256, LoRA). Departure: its
    general text is the English Wikipedia of Merity et al. 2016; here it is that of the datasets in ``general_from``,
    and there are none by default.

    Raises:
        InputError: the size has no decoder, or there are no training passages of two tokens, or none in one of
            ``general_from``.
    """
    run.count("general_passages", n_training_rows(inputs.each("general"), "general_from"))
    texts = training_texts(inputs)
    run.count("training_passages", sum(map(len, texts())))
    run.count("dev_passages", len(dev := dev_texts(inputs, params)))
    card = {
        "name": f"{params.size} adapt",
        "summary": "A decoder whose tokens attend both ways, before it has learned to retrieve.",
        "backbone": params.start.name,
        "data": ", ".join(str(version.manifest.ref) for version in (inputs["passages"], *inputs.each("general"))),
    }
    start = params.start.files(run.scratch / "start")
    with reported(run) as report:
        result = adapt(start, texts, dev, params, run.scratch / "checkpoints", report)
    from pipeline_tasks.training.curves import curve
    from pipeline_tasks.training.model.export import export

    count(result, run, "dev_blanks_filled")
    facts = card | {"checkpoint": chosen(result, "blanks filled"), "training": params.hyperparameters()}
    out = run.scratch / "model"
    layout = Layout("mean", params.max_passage_length)
    export(result.encoder, out, card=facts, layout=layout, keep_adapters=params.keep_adapters)
    curve.save(result, params, out)
    return out


def adapt(
    backbone_dir: Path, texts: Texts, dev: Sequence[str], params: AdaptParams, work_dir: Path, report: Report
) -> TrainResult:
    """Train the decoder in ``backbone_dir``; resumable as :func:`pipeline_tasks.training.contrastive.train` is.

    The tokens of ``texts`` lie in a file below ``work_dir``: of the texts one block is in memory.

    Raises:
        InputError: the folder holds no decoder, or one that does not look ahead in transformers or whose head is more
            than its output embeddings, or there is no text of two tokens to train on.
    """
    from pipeline_tasks.training.parallel.processes import run_on_devices

    work = partial(_adapt, backbone_dir, texts, dev, params, work_dir)
    return run_on_devices(work, devices_of(params.device), report)


def _adapt(
    backbone_dir: Path,
    texts: Texts,
    dev: Sequence[str],
    params: AdaptParams,
    work_dir: Path,
    peers: Peers,
    report: Report,
) -> TrainResult:
    from pipeline_tasks.training.data.tokens import tokens_of
    from pipeline_tasks.training.loop import run
    from pipeline_tasks.training.masked import Blanks, blank_token, masked_task
    from pipeline_tasks.training.model.limits import check_backbone
    from pipeline_tasks.training.model.open_model import add_adapters

    encoder, head = _open(backbone_dir, params, peers)
    check_backbone(encoder, params, params.max_passage_length)
    blanks = Blanks(blank_token(encoder.tokenizer, params.mask_text), params.mask_share)
    encoder.tokens.check(blanks.token)
    sets: dict[str, Texts] = {"texts": texts, "dev": partial(iter, [pa.array(dev, pa.string())])}
    with peers.first_of_node():
        (learned_from, key), (held_out, key_of_dev) = (
            tokens_of(given, work_dir / "tokens" / f"{name}.arrow", encoder.tokens, params.max_passage_length)
            for name, given in sets.items()
        )
    add_adapters(encoder, params)
    task = masked_task(encoder, head, learned_from, held_out, digest([key, key_of_dev]), blanks, params, peers)
    return run(encoder, task, params, work_dir, report, settings().threads, peers)


def _open(backbone_dir: Path, params: AdaptParams, peers: Peers) -> tuple[TrainableEncoder, Callable[[Tensor], Tensor]]:
    """The trunk, attending both ways, and the head that it came with, with its factor and cap."""
    from pipeline_tasks.encoders.layout import layout_of
    from pipeline_tasks.encoders.states import Scores, check_looks_ahead, scores_of_head
    from pipeline_tasks.encoders.trunk import TrainableEncoder, load_model, padding_tokenizer
    from pipeline_tasks.training.descent import told_when_too_large
    from pipeline_tasks.training.model.open_model import device_of, dtype_of, opened_on
    from pipeline_tasks.training.parallel.divided import divides

    device = opened_on(params, peers)
    model = load_model(backbone_dir, dtype=dtype_of(params, backbone_dir), causal=False, head="next_token")
    with told_when_too_large(params):
        model.to(device)
        check_looks_ahead(backbone_dir, model.base_model)
        scores = scores_of_head(backbone_dir, model)
    trunk, head = model.base_model, model.get_output_embeddings()
    tied = head.weight is trunk.get_input_embeddings().weight
    if divides(params, peers):  # the trunk's embeddings, which the head may be made of
        head, tied = (deepcopy(head) if tied else head).to(device_of(params)), False
    if not tied:
        head.requires_grad_(False)
    encoder = TrainableEncoder(trunk, padding_tokenizer(backbone_dir), layout_of(backbone_dir))
    return encoder, head if scores == Scores() else lambda hidden: scores(head(hidden))


def training_texts(inputs: Inputs) -> Texts:
    """Of passages, then of general text, in the order in which they are stored."""
    return partial(_texts, [inputs["passages"], *inputs.each("general")])


def dev_texts(inputs: Inputs, params: AdaptParams) -> list[str]:
    """Passages of dev documents, at most ``dev_passages``: which depends on their ids alone."""
    blocks = of_split(inputs["passages"], ["passage_id", "text"], "dev")
    rows = (zip(*(block[name].to_pylist() for name in block.column_names), strict=True) for block in blocks)
    hashed = ((unit_hash("adapt", name), text) for of_block in rows for name, text in of_block)
    return [text for _, text in heapq.nsmallest(params.dev_passages, hashed)]


def _texts(versions: Sequence[Version]) -> Iterator[pa.Array]:
    for version in versions:
        for block in of_split(version, ["text"], "train"):
            yield one_array(block["text"])
