"""Refuses backbones that lack what the parameters need: positions for the longest text, activations to recompute."""

from __future__ import annotations

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import positions
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.params import OptimiserParams


def check_backbone(encoder: TrainableEncoder, params: OptimiserParams, longest: int) -> None:
    """Refuse texts that the backbone has no positions for, and activations that it cannot compute again.

    Raises:
        InputError: ``longest`` is more tokens than it takes, or ``recompute`` is for other kinds of models.
    """
    limit = positions(encoder.model.config.to_dict())
    if limit is not None and longest > limit:
        raise InputError(f"texts of {longest} tokens do not fit a backbone of {limit} positions: lower max_*_length")
    if params.recompute:
        check_recompute(encoder.model.config.model_type)


def check_recompute(kind: str) -> None:
    """Refuse ``recompute`` where transformers has no way to do so for that ``model_type``; one it does not know passes.

    Raises:
        InputError: it has none.
    """
    from transformers import CONFIG_MAPPING, MODEL_MAPPING

    found = MODEL_MAPPING.get(CONFIG_MAPPING[kind], ()) if kind in CONFIG_MAPPING else ()
    models = found if isinstance(found, tuple) else (found,)
    if not all(model.supports_gradient_checkpointing for model in models):
        raise InputError(
            f"recompute=true: transformers cannot compute the activations of {kind!r} models again; leave it out, and "
            "lower micro_batch_tokens, or graph_tokens where the stage has it, for less memory"
        )
