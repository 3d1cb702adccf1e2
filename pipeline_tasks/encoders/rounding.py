"""Whether bfloat16 holds a model's weights as they are."""

from __future__ import annotations

from pathlib import Path

_AT_ONCE = 1 << 24
"""Numbers that are looked at together, so that an embedding matrix is not in memory several times."""


def survives_bfloat16(folder: Path) -> bool:
    """Whether every weight in a folder's safetensors is the same in bfloat16, to the last digit.

    Models that are published in bfloat16 are, whatever they are saved in; those with adapters folded in are not. Files
    that cannot be read are not, either: whoever loads them says what is wrong.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    def survives(weights: torch.Tensor) -> bool:
        parts = weights.flatten().split(_AT_ONCE) if weights.is_floating_point() else ()
        return all(torch.equal(part.bfloat16().to(part.dtype), part) for part in parts)

    try:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (a handle, which has no iterator)
                    if file.get_slice(name).get_dtype() != "BF16" and not survives(file.get_tensor(name)):
                        return False
    except (SafetensorError, OSError):
        return False
    return True
