"""The toy chain, phase by phase: a phase is one state of the outside world."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import make, toy_bare, toy_list, toy_scale, toy_total, toy_unique

EFFORT = 30
WORLDS = (
    {f"item{n}": n % 9 for n in range(12)},
    {f"item{n}": n % 9 for n in range(1, 12)} | {"item4": 44, "item20": 13, "item21": 21},
    {f"item{n}": n % 9 for n in range(14)},
)


def run_phase(store: LocalStore, phase: int) -> None:
    """List the world as it is in ``phase``, then every step after it."""
    make(store, toy_list, rows=WORLDS[phase])
    make(store, toy_scale, effort=EFFORT)
    make(store, toy_unique)
    make(store, toy_bare, effort=EFFORT)
    make(store, toy_total)


def in_child(ready: Any, root: Path, phase: int) -> None:
    """One phase in a process group of its own; says on ``ready`` when it begins."""
    os.setsid()
    ready.send("begin")
    run_phase(LocalStore(root), phase)
