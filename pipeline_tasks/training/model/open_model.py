"""How a model is opened to be trained: on which device, in which precision, with which adapters."""

import logging
from pathlib import Path

import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.half_precision import warn_if_slow
from pipeline_tasks.encoders.lora import Lora, with_adapters
from pipeline_tasks.encoders.rounding import survives_bfloat16
from pipeline_tasks.encoders.states import looks_ahead
from pipeline_tasks.encoders.trunk import DType, TrainableEncoder, load
from pipeline_tasks.training.descent import told_when_too_large
from pipeline_tasks.training.parallel.divided import divides
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams

log = logging.getLogger(__name__)


def open_encoder(folder: Path, params: OptimiserParams, peers: Peers = ALONE) -> TrainableEncoder:
    """The encoder in ``folder``, with adapters where ``params`` say so, where :func:`opened_on` has it.

    Raises:
        InputError: there is no such encoder or device, or it has no room for the encoder, or that is a decoder which
            was not adapted and is not to stay causal.
    """
    with told_when_too_large(params):
        encoder = load(folder, opened_on(params, peers), dtype_of(params, folder))
        if getattr(params, "causal", None) is False:
            check_adapted(encoder, "set causal=true")
        add_adapters(encoder, params)
    return encoder


def check_adapted(encoder: TrainableEncoder, otherwise: str) -> None:
    """Refuse what does not look ahead, unless it is an embedder that was made so, with the last token for a vector.

    Raises:
        InputError: it is a decoder that was not adapted; ``otherwise`` says what else than its adaptation helps.
    """
    config = encoder.model.config
    if getattr(config, "is_causal", None) is False or looks_ahead(encoder.model):  # the former was seen on loading
        return
    if encoder.layout.pooling != "last":
        raise InputError(
            f"what this starts from, a {config.model_type!r} model, is a decoder that was not adapted: run "
            f"adapt_backbone under a size with a decoder and start from that, or {otherwise}"
        )
    log.info("what this starts from, a %r model, does not look ahead, and pools by its last token", config.model_type)


def opened_on(params: OptimiserParams, peers: Peers) -> torch.device:
    """The device of ``params``; the processor for weights that are or will be divided, as one device may not hold them.

    Raises:
        InputError: there is no such device.
    """
    device = device_of(params)
    return torch.device("cpu") if peers.done or divides(params, peers) else device


def dtype_of(params: OptimiserParams, folder: Path) -> DType:
    """What the weights in ``folder`` are held in: float32 where they train.

    Under adapters, which alone train then, that of the run, unless it would round away some of what they have learned.
    """
    return "bfloat16" if params.lora_rank and params.bf16 and survives_bfloat16(folder) else "float32"


def add_adapters(encoder: TrainableEncoder, params: OptimiserParams) -> None:
    """Let adapters train instead of the weights, where ``params`` say so."""
    if params.lora_rank:
        lora = Lora(params.lora_rank, params.lora_alpha, params.lora_targets)
        encoder.model = with_adapters(encoder.model, lora, params.seed)


def device_of(params: OptimiserParams) -> torch.device:
    """The device that ``params`` name; says in the log where it is slow at their precision.

    Raises:
        InputError: it is a GPU, and there is none.
    """
    if params.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda' and no GPU is seen: use device='cpu', or a machine with a GPU")
    if params.bf16:
        warn_if_slow("bfloat16", params.device, "precision=bf16", "precision=fp32")
    return torch.device(params.device)
