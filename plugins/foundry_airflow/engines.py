"""A back-end made of an engine: something that runs commands beyond this process and knows them by name.

A command outlives the task that asked for it. If that task is killed, its next try finds the command by its name and
goes on watching it, so nothing is paid twice. Whoever reads how a command ended also removes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import sleep
from typing import Protocol

from foundry_airflow.calls import Call, Ended, Say, cancelled
from foundry_airflow.containers import number
from pipeline_tasks.core.errors import FoundryError, TransientError

FIRST_PAUSE_S = 0.1
TOLERATED = 30
"""Looks in a row at an engine that does not answer."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """What there is to see of a command.

    Attributes:
        lines: what it logged since the last look.
        after: the last of them, as the engine names it; where the next look begins.
        state: in words.
        ended: how it ended, if it has.
    """

    lines: tuple[str, ...] = ()
    after: str = ""
    state: str = ""
    ended: Ended | None = None


class Engine(Protocol):
    """Docker, Kubernetes, a batch system. Each method raises TransientError where trying again may help."""

    def start(self, call: Call) -> bool:
        """Run ``call`` unless one of its name runs; whether it did not. What has ended by that name is removed."""

    def look(self, name: str, after: str) -> Look:
        """What is new since ``after``; a command that is gone has ended."""

    def end(self, name: str) -> None:
        """Stop the command and forget it; no error where there is none."""


class Follower:
    """Watches one command to its end, look by look.

    Args:
        engine: where it runs.
        name: the call's name.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._after, self._state, self._failures = "", "", 0

    def look(self) -> tuple[list[str], Ended | None]:
        """New lines, and how it ended, if it has; then it is removed.

        Raises:
            TransientError: the engine has not answered for a while.
        """
        try:
            seen = self._engine.look(self._name, self._after)
            if seen.ended:
                self._engine.end(self._name)
        except TransientError as error:
            self._failures += 1
            if self._failures > TOLERATED:
                raise
            log.warning("%s", error)
            return [], None
        self._failures = 0
        changed = [f"{self._name}: {seen.state}"] if seen.state and seen.state != self._state else []
        self._after, self._state = seen.after, seen.state
        return [*changed, *seen.lines], seen.ended


def pauses() -> Iterator[float]:
    """Seconds between looks: often at first, for a short step, then ``[foundry] poll_s``."""
    longest, pause_s = number("poll_s", 2), FIRST_PAUSE_S
    while True:
        yield min(pause_s, longest)
        pause_s = min(pause_s * 1.3, longest)


class EngineBackend:
    """Runs calls on an engine; see :class:`foundry_airflow.backends.Backend`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._name = ""
        self._cancelled = False

    def start(self, call: Call, say: Say) -> None:
        """Run ``call``, or say that it runs already.

        Raises:
            TransientError: it was cancelled before, or meanwhile.
        """
        self._name = call.name
        if self._cancelled:
            raise cancelled(call)
        fresh = self._engine.start(call)
        if self._cancelled:
            self.cancel()
            raise cancelled(call)
        say(f"{call.name} {'starts' if fresh else 'runs already; this task follows it'}")

    def run(self, call: Call, say: Say) -> Ended:
        """Run ``call`` to its end; where the engine is out of reach the command goes on, for the next try to find."""
        try:
            self.start(call, say)
            follower = Follower(self._engine, call.name)
            for pause_s in pauses():
                lines, ended = follower.look()
                for line in lines:
                    say(line)
                if ended:
                    return ended
                sleep(pause_s)
        except TransientError:
            raise
        except BaseException as error:
            try:
                self.cancel()
            except FoundryError as second:
                error.add_note(f"{call.name} could not be ended: {second}")
            raise
        raise AssertionError("pauses have no end")

    def cancel(self) -> None:
        """End the command that this task watches; from now on none starts."""
        self._cancelled = True
        if self._name:
            self._engine.end(self._name)
