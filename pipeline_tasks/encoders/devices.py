"""Where models run on this machine."""

from __future__ import annotations

from typing import Literal

from pipeline_tasks.core.settings import settings

DeviceKind = Literal["cpu", "cuda"]


def devices() -> str:
    """The devices of the settings, joined by commas; without any, every GPU, else the processor."""
    if named := [name for one in settings().devices.split(",") if (name := one.strip())]:
        return ",".join(named)
    import torch

    return ",".join(f"cuda:{i}" for i in range(torch.cuda.device_count())) or "cpu"


def devices_of(kind: DeviceKind) -> list[str]:
    """Those of a kind; every machine has a processor, whatever the settings name."""
    found = [device for device in devices().split(",") if device.startswith(kind)]
    return found or (["cpu"] if kind == "cpu" else [])


def device_kind() -> DeviceKind:
    """What kind the first of them is."""
    return "cuda" if devices().startswith("cuda") else "cpu"
