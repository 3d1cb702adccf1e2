"""Hidden states of a transformers model, and what those of a few tokens tell of it before it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)
ENCODERS = ("t5", "mt5", "umt5")
"""Kinds of models with a decoder that embed texts without it, as sentence-transformers has it."""
_ROUNDING = 1e-5  # of the largest number of a hidden state: less is no difference
_SCORES_ALIKE = 0.02  # of bfloat16


def hidden_states(model: Any, features: Mapping[str, Tensor]) -> Tensor:
    """The last hidden states of a batch, float32.

    Shapes:
        features: [b, s] each; returns [b, s, d].
    """
    given = {name: features[name] for name in ("input_ids", "attention_mask")}
    without_cache = {"use_cache": False} if getattr(model.config, "use_cache", None) else {}
    return model(**given, **without_cache).last_hidden_state.float()


def check_is_one_part(folder: Path, config: Any) -> None:
    """Refuse a model of several parts, such as of texts and images, of which one reads texts.

    Raises:
        InputError: it is one.
    """
    if not hasattr(config, "hidden_size"):
        raise InputError(
            f"{folder} is a {config.model_type!r} model, of whose parts one reads texts: save its text model alone "
            "(with its head, to adapt it), put its tokenizer there, and name that folder"
        )


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
    if getattr(model.config, "is_causal", None) is not False:
        return
    try:
        sees = looks_ahead(model)
    except (AttributeError, TypeError, ValueError, NotImplementedError) as error:  # MPT's has no mask without padding
        log.info("%s does not read a few tokens as a model that attends both ways: %s", folder, error)
        sees = False
    if not sees:
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


@dataclass(frozen=True)
class Scores:
    """What a model makes of the product of its output embeddings and a hidden state: its scores of all tokens.

    Attributes:
        factor: that it multiplies by.
        cap: bound of the scores, by a tanh; None: there is none.
    """

    factor: float = 1.0
    cap: float | None = None

    def __call__(self, product: Tensor) -> Tensor:
        """The scores, of the product's shape."""
        scores = product if self.factor == 1 else self.factor * product
        return scores if self.cap is None else self.cap * (scores / self.cap).tanh()


def scores_of_head(folder: Path, model: Any) -> Scores:
    """How a model with a head scores tokens: its cap is told by its config, its factor by a few tokens.

    Raises:
        InputError: its scores are something else.
    """
    import torch
    from torch.nn.functional import cosine_similarity

    config, head = model.config.get_text_config(), model.get_output_embeddings()
    cap = getattr(config, "final_logit_softcapping", None)
    if head.weight.shape[1] == config.hidden_size:
        ids = torch.tensor([_tokens(model, 3)]).to(model.device)
        row = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            scores = model(**row).logits.float().flatten()
            product = head(hidden_states(model.base_model, row).to(head.weight.dtype)).float().flatten()
        if cap is not None and torch.allclose(
            Scores(1.0, cap)(product), scores, rtol=_SCORES_ALIKE, atol=_SCORES_ALIKE
        ):
            return Scores(1.0, cap)
        if cap is None and cosine_similarity(scores, product, dim=0) > 1 - _SCORES_ALIKE:
            return Scores(float(f"{float(scores @ product / (product @ product)):.3g}"))
    raise InputError(
        f"{folder} is a {model.config.model_type!r} model, whose head does more than multiply by its output "
        "embeddings: name another decoder; an encoder needs no adaptation, choose a size with one"
    )


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
