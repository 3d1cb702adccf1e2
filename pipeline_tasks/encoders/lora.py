"""Low-rank adapters: what trains of a large model, folded into its weights when it is saved.

A matrix W stays as it came and W + (alpha / rank) B A is used, where A has ``rank`` rows and B, which starts at zero,
``rank`` columns: the first forward pass is that of the model as it came.

Source:
    Hu et al. 2021 (arXiv 2106.09685), by the peft library. DMRetriever, appendix I: rank 16 and alpha 32 for decoders.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import quiet


@dataclass(frozen=True)
class Lora:
    """Which layers get adapters, and how large ones.

    Attributes:
        rank: of both matrices.
        alpha: alpha / rank is the weight of their product.
        targets: names of linear layers, the last part of each: ``q_proj``; empty: all of them.
    """

    rank: int
    alpha: int
    targets: tuple[str, ...]


def check_targets(targets: Collection[str], layers: Collection[str], name: str) -> None:
    """Refuse targets that are none of the linear layers of the model called ``name``.

    Raises:
        InputError: one is none.
    """
    if not set(targets) <= set(layers):
        raise InputError(
            f"lora_targets={list(targets)}: {name} has no such linear layer; "
            f"name some of {', '.join(sorted(layers))}, or set lora_rank=0 to train all weights"
        )


def with_adapters(model: Any, lora: Lora, seed: int) -> Any:
    """``model`` with adapters, which alone can be trained; they are float32, whatever the model is held in.

    Raises:
        InputError: a target is no layer of the model.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    linear = [name.split(".") for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)]
    layers = {parts[-1] for parts in linear if parts[0] != "pooler"}  # no pooling here uses one
    check_targets(lora.targets, layers, type(model).__name__)
    targets = list(lora.targets) or sorted(layers)
    like_them = any(parts[0] == "pooler" and parts[-1] in targets for parts in linear)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        exclude_modules=r"pooler\..*" if like_them else None,
        lora_dropout=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def merged(model: Any) -> Any:
    """The model with its adapters folded into float32 weights, so that no digit of them is lost; others as they are."""
    return model.float().merge_and_unload() if _has_adapters(model) else model


def save_adapters(model: Any, folder: Path) -> None:
    """Write the adapters alone, where ``model`` has any, as peft reads them; they fit the weights that it came with."""
    if not _has_adapters(model):
        return
    with quiet():
        model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    # peft notes the folder that the weights were loaded from, which is one of this machine.
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text("utf-8")) | {"base_model_name_or_path": None}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def _has_adapters(model: Any) -> bool:
    return hasattr(model, "merge_and_unload")
