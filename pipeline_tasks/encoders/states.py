"""Hidden states of a transformers model, and whether it has them for token ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

ENCODERS = ("t5", "mt5", "umt5")
"""Kinds of models with a decoder that embed texts without it, as sentence-transformers has it."""


def hidden_states(model: Any, features: Mapping[str, Tensor]) -> Tensor:
    """The last hidden states of a batch, float32.

    Shapes:
        features: [b, s] each; returns [b, s, d].
    """
    given = {name: features[name] for name in ("input_ids", "attention_mask")}
    without_cache = {"use_cache": False} if getattr(model.config, "use_cache", None) else {}
    return model(**given, **without_cache).last_hidden_state.float()


def check_decoder(folder: Path, model: Any) -> None:
    """Refuse a model whose decoder wants a text of its own; BART's reads that of the encoder.

    Raises:
        InputError: it is one.
    """
    import torch

    token = torch.ones((1, 1), dtype=torch.long)
    try:
        with torch.no_grad():
            hidden_states(model, {"input_ids": token, "attention_mask": token})
    except (ValueError, AttributeError) as error:
        raise InputError(
            f"{folder} is a {model.config.model_type!r} model, whose decoder wants a text of its own: of models with a "
            f"decoder beside their encoder, BART's kind and {', '.join(ENCODERS)} work, the latter without it"
        ) from error
