"""What a run ran on: versions of the libraries that compute, Python, processor, threads and device."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings

PACKAGES = {
    "torch": ("torch",),
    "transformers": ("transformers",),
    "tokenizers": ("tokenizers",),
    "safetensors": ("safetensors",),
    "accelerate": ("accelerate",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "faiss": ("faiss-cpu", "faiss-gpu"),
    "numpy": ("numpy",),
    "numba": ("numba",),
    "pyarrow": ("pyarrow",),
    "duckdb": ("duckdb",),
    "bm25s": ("bm25s",),
}
"""Library -> the distributions that provide it, the first one installed counts."""


@cache
def installed() -> dict[str, str]:
    """Library -> version, of those that are installed; nothing is imported."""
    found = {}
    for name, distributions in PACKAGES.items():
        for distribution in distributions:
            try:
                found[name] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found


def versions_of(*names: str) -> dict[str, str]:
    """Library -> version, for the identity of a step whose rows depend on it.

    Raises:
        InputError: one is not installed.
    """
    found = installed()
    for name in names:
        if name not in found:
            raise InputError(
                f"{name} is not installed, and its version is part of the version of what is made with it: install "
                f"{PACKAGES[name][0]} here in the version that the steps run with"
            )
    return {name: found[name] for name in names}


def runtime() -> dict[str, Any]:
    """The facts of this process, for the event of a run; the device is unknown where torch is not loaded."""
    return {
        "python": platform.python_version(),
        "processor": _processor(),
        "device": _device(),
        "threads": settings().threads,
        "packages": installed(),
    }


@cache
def _processor() -> str:
    """The processor's own name where Linux tells it, else the kind of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def _device() -> str | None:
    """Names of the GPUs once torch has opened one in this process, else ``cpu`` where no other process can have."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.cuda.is_initialized():
        return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return "cpu" if settings().devices.strip() == "cpu" or not torch.cuda.device_count() else None
