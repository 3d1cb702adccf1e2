"""Hidden states of a transformers model, and what those of a few tokens tell of it before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

ENCODERS = ("t5", "mt5", "umt5")
"""Kinds of models with a decoder that embed texts without it, as sentence-transformers has it."""
_ROUNDING = 1e-5  # of the largest number of a hidden state: less is no difference
_ALIKE = 0.95  # cosine; a tanh over scores, as Gemma 2 has it, bends large ones


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


def check_looks_ahead(folder: Path, model: Any) -> None:
    """Refuse a model whose config says ``is_causal: false`` where transformers does not heed it, or not always.

    Raises:
        InputError: it is one.
    """
    if getattr(model.config, "is_causal", None) is False and not looks_ahead(model):
        raise InputError(
            f"{folder} is a {model.config.model_type!r} model that is to attend both ways (is_causal=false), and in "
            "transformers these do not look ahead, or in padded batches alone: name another decoder"
        )


def looks_ahead(model: Any) -> bool:
    """Whether a token sees those behind it, in a batch without padding and beside a longer text.

    Args:
        model: in evaluation mode, with whole weights.
    """
    import torch

    a, b, c, d = _tokens(model, 4)
    alone, beside = torch.tensor([[a, b]]), torch.tensor([[a, b, a], [b, c, d]])
    shorter = torch.ones_like(beside)
    shorter[0, 2] = 0
    return all(_first_moves(model, ids, mask, d) for ids, mask in ((alone, torch.ones_like(alone)), (beside, shorter)))


def head_factor(folder: Path, model: Any) -> float:
    """What a model with a head multiplies the product of its output embeddings and a hidden state by; 1 for most.

    Raises:
        InputError: its scores are something else than a multiple of that product.
    """
    import torch
    from torch.nn.functional import cosine_similarity

    ids, head = torch.tensor([_tokens(model, 3)]).to(model.device), model.get_output_embeddings()
    row = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        scores = model(**row).logits.float().flatten()
        product = head(hidden_states(model.base_model, row).to(head.weight.dtype)).float().flatten()
    if not cosine_similarity(scores, product, dim=0) > _ALIKE:
        raise InputError(
            f"{folder} is a {model.config.model_type!r} model, whose head does more than multiply by its output "
            "embeddings: name another decoder; an encoder needs no adaptation, choose a size with one"
        )
    return float(f"{float(scores @ product / (product @ product)):.3g}")


def _first_moves(model: Any, ids: Tensor, mask: Tensor, token: int) -> bool:
    """Whether the first state of the first row is another with ``token`` in second place.

    Each in a batch of its own: in bfloat16, rows of one batch may differ for their place alone.
    """
    import torch

    other = ids.clone()
    other[0, 1] = token
    rows = [{"input_ids": one.to(model.device), "attention_mask": mask.to(model.device)} for one in (ids, other)]
    with torch.no_grad():
        before, after = (hidden_states(model, row)[0, 0] for row in rows)
    return bool((after - before).abs().max() > _ROUNDING * before.abs().max())


def _tokens(model: Any, n: int) -> list[int]:
    """Tokens of the middle of the vocabulary, where those are that texts are made of."""
    size = len(model.get_input_embeddings().weight)
    return [(size // 2 + place) % size for place in range(n)]
