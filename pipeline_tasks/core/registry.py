"""Finding steps by name: function = module = command = task id = lineage job."""

from __future__ import annotations

import difflib
import importlib
from functools import cache

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.step import Step

PACKAGE = "pipeline_tasks"
DEFAULT = "default"
"""In an operator's file with a table for each step, the table for every step."""
ROOMS = ("corpus", "synthesis", "retrieval", "curation", "training", "evaluation")


@cache
def step_names() -> dict[str, str]:
    """Step name -> module, in the order data flows; each room's ``__init__`` lists its ``STEPS``."""
    found: dict[str, str] = {}
    for room in ROOMS:
        package = importlib.import_module(f"{PACKAGE}.{room}")
        for name in package.STEPS:
            found[name] = f"{PACKAGE}.{room}.{name}"
    return found


def get_step(name: str) -> Step:
    """The step called ``name``.

    Raises:
        InputError: there is none; the message offers the nearest name.
    """
    modules = step_names()
    if name not in modules:
        near = difflib.get_close_matches(name, modules, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`foundry steps` lists them"
        raise InputError(f"no step is called {name!r}; {hint}")
    return getattr(importlib.import_module(modules[name]), name)


def check_table(path: str, name: str) -> None:
    """Refuse a table ``name`` of the operator's file ``path`` that is neither a step's nor for every step.

    Raises:
        InputError: it is of no step; the message names the tables that there may be.
    """
    if name != DEFAULT and name not in step_names():
        raise InputError(f"{path}: no step is called {name!r}; tables may be: {DEFAULT}, {', '.join(step_names())}")
