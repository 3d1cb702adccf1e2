"""An encoder: a transformer trunk, its tokenizer, mean pooling and L2 normalisation."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pipeline_tasks.core.errors import InputError


@dataclass
class Encoder:
    """A trunk (``transformers`` model) with its tokenizer."""

    model: Any
    tokenizer: Any

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    def features(self, sequences: Sequence[np.ndarray], unpooled: Sequence[int] | None = None) -> dict[str, Tensor]:
        """Pad token ids to one length, on the model's device; the first ``unpooled`` tokens of each are not pooled.

        Shapes:
            ``input_ids``, ``attention_mask`` and ``pooling_mask``: [b, s], s the longest sequence.
        """
        width = max(len(ids) for ids in sequences)
        padding = self.tokenizer.pad_token_id or 0
        input_ids = np.full((len(sequences), width), padding, dtype=np.int64)
        mask = np.zeros((len(sequences), width), dtype=np.int64)
        for row, ids in enumerate(sequences):
            input_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        pooled = mask.copy()
        for row, first in enumerate(unpooled if unpooled is not None else ()):
            pooled[row, :first] = 0
        arrays = {"input_ids": input_ids, "attention_mask": mask, "pooling_mask": pooled}
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}


def encode_batch(model: Any, features: dict[str, Tensor]) -> Tensor:
    """Mean of the last hidden states over pooled tokens, L2-normalised, float32 whatever the autocast type.

    Shapes:
        features: [b, s] each; returns [b, d].

    Source:
        DMRetriever 3.1 (mean pooling over the final hidden states, cosine similarity).
    """
    given = {name: features[name] for name in ("input_ids", "attention_mask")}
    hidden = model(**given).last_hidden_state.float()
    mask = features["pooling_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
    return functional.normalize(mean, dim=-1)


def load(folder: Path, device: str | torch.device = "cpu") -> Encoder:
    """Load a trunk in float32 from a plain ``transformers`` folder or a sentence-transformers one.

    The folder is read and nothing else: no hub, no code from the folder, no pickles. A missing pooler (mean
    pooling does not use one) becomes zeros, so that the same folder always gives the same weights.

    Raises:
        InputError: no model in safetensors there, weights missing from it, or a pooling other than the mean.
    """
    from transformers import AutoModel, AutoTokenizer

    trunk = _trunk_folder(Path(folder))
    with quiet(), torch.random.fork_rng():
        model, report = AutoModel.from_pretrained(
            trunk,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise InputError(f"{trunk} lacks {len(missing)} weights, among them {missing[0]!r}: get the whole model")
    if getattr(model, "pooler", None) is not None:
        model.pooler.requires_grad_(False)
        if report["missing_keys"]:
            with torch.no_grad():
                for weights in model.pooler.parameters():
                    weights.zero_()
    tokenizer = AutoTokenizer.from_pretrained(trunk, local_files_only=True, trust_remote_code=False)
    return Encoder(model.to(device), tokenizer)


def _trunk_folder(folder: Path) -> Path:
    modules_file = folder / "modules.json"
    trunk = folder
    if modules_file.exists():
        modules = json.loads(modules_file.read_text(encoding="utf-8"))
        by_kind = {module["type"].rsplit(".", 1)[-1]: folder / module["path"] for module in modules}
        trunk = by_kind.get("Transformer", folder)
        pooling = json.loads((by_kind["Pooling"] / "config.json").read_text(encoding="utf-8"))
        is_mean = pooling.get("pooling_mode") == "mean" or pooling.get("pooling_mode_mean_tokens", False)
        others = [key for key, on in pooling.items() if key.startswith("pooling_mode_") and on is True]
        if not is_mean or set(others) - {"pooling_mode_mean_tokens"}:
            raise InputError(f"{folder} pools by {others or pooling.get('pooling_mode')}: choose a mean-pooling model")
    if not (trunk / "config.json").is_file() or not list(trunk.glob("*.safetensors")):
        raise InputError(f"{trunk} is not a model: it needs config.json, *.safetensors and a tokenizer")
    return trunk


@contextmanager
def quiet() -> Iterator[None]:
    """Keep ``transformers`` from drawing bars and load reports while weights are read or written."""
    from transformers.utils import logging

    had_bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
