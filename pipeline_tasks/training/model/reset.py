"""A trunk whose top layers start again as identity.

The upper layers of a cross-encoder judge whether a pair is relevant; what a single text means is gone by then, and
contrastive training started from them collapses to one vector for all texts. Started as identity, the output is at
first that of the layer below, which does tell texts apart, and the upper layers learn from there.

Source: re-initialised top layers, Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", section 4; here to zero
output projections rather than to random ones.
"""

import shutil
from pathlib import Path

import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load


def reset_top_layers(folder: Path, target: Path, n_layers: int) -> Path:
    """Copy the trunk in ``folder`` to ``target`` with its top ``n_layers`` as identity; the same bytes every time.

    Raises:
        InputError: the trunk is not of the BERT family, has fewer layers, pools otherwise than by the mean, or wants
            something before texts.
    """
    encoder = load(folder)
    layout = encoder.layout
    if layout.pooling != "mean" or layout.projection or any(layout.prefixes.values()):
        raise InputError(
            f"reset_layers={n_layers}, but {folder} is an embedder, which knows what a text means; choose 0"
        )
    stack = getattr(getattr(encoder.model, "encoder", None), "layer", None)
    if stack is None or n_layers > len(stack):
        found = "is not of the BERT family" if stack is None else f"has {len(stack)} layers"
        raise InputError(f"reset_layers={n_layers}, but the backbone in {folder} {found}; choose fewer, or 0")
    with torch.no_grad():
        for layer in stack[len(stack) - n_layers :]:
            for sublayer in (layer.attention.output, layer.output):
                sublayer.dense.weight.zero_()
                sublayer.dense.bias.zero_()
                sublayer.LayerNorm.weight.fill_(1.0)
                sublayer.LayerNorm.bias.zero_()
    shutil.rmtree(target, ignore_errors=True)  # a killed process may have left half a file
    target.mkdir(parents=True)
    encoder.model.save_pretrained(target)
    encoder.tokenizer.save_pretrained(target)
    return target
