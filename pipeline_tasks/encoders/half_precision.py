"""Whether this processor has instructions for products in half precision.

Without them torch gets the same numbers by detours: on a processor with AVX2 alone a matrix product took 30 to 40 times
as long in bfloat16 or float16 as in float32. So half precision saves time on GPUs and on such processors alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args

log = logging.getLogger(__name__)
Half = Literal["bfloat16", "float16"]
_INSTRUCTIONS: dict[Half, dict[str, str]] = {
    "bfloat16": {"avx512_bf16": "AVX512-BF16", "amx_bf16": "AMX-BF16", "bf16": "Arm BF16"},
    "float16": {"avx512_fp16": "AVX512-FP16", "amx_fp16": "AMX-FP16", "fp16_arith": "Arm FP16"},
}
"""As torch names them, and as their makers do."""


def has_products(kind: Half, capabilities: Mapping[str, object] | None = None) -> bool:
    """Whether the processor multiplies numbers of this kind by itself.

    Args:
        kind: of half precision.
        capabilities: what torch says of a processor; None: of this one.
    """
    if capabilities is None:
        import torch

        capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _INSTRUCTIONS[kind])


def slow_here(kind: str, device: str) -> str:
    """Why products in this precision take long on a device of this machine; empty where they do not."""
    if kind not in get_args(Half) or not device.startswith("cpu") or has_products(kind):  # type: ignore[arg-type]
        return ""
    wanted = ", ".join(_INSTRUCTIONS[kind].values())  # type: ignore[index]
    return f"this processor has no instructions for {kind} ({wanted}), so it takes many times as long as float32"


@cache
def warn_if_slow(kind: str, device: str, setting: str, remedy: str) -> None:
    """Say so in the log, once a process, and what to set instead.

    Args:
        kind: a precision as torch calls it.
        device: where its products are made.
        setting: what asks for it, such as ``precision=bf16``.
        remedy: what to set in its place.
    """
    if why := slow_here(kind, device):
        log.warning("%s: %s, with results that are no better; set %s", setting, why, remedy)
