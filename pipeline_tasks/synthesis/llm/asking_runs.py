"""Runs that ask at once what a batch would ask: one of both gives way, and nothing is paid twice."""

from __future__ import annotations

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.pins import living_pins
from pipeline_tasks.core.store import Store


class RunAsks(TransientError):
    """A run asks at once what a batch would ask."""


def check_nobody_asks(store: Store, step: str, ids: tuple[str, ...] = ()) -> None:
    """No run of ``step`` is there, and none that has ended meanwhile has bought any of ``ids``.

    A run shows its pin first (:mod:`pipeline_tasks.core.execution.runner`) and then, for each of its parts, looks
    which batches are open; who begins a batch writes it down first and then looks here. So one of the two sees the
    other.

    Raises:
        RunAsks: one is, or has.
    """
    if any(run.step == step for run in living_pins(store)) or ResponseStore(store).has_any(ids):
        raise RunAsks(
            f"a run of {step} is asking now, or was until a moment ago, and a batch would ask, and pay, for the same "
            "once more: try again when it has ended"
        )
