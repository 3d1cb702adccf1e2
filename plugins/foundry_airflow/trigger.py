"""Waits for a command on an engine without holding a worker: the triggerer looks at many of them in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any

from airflow.sdk.log import amask_secret, redact
from airflow.triggers.base import BaseTrigger, TriggerEvent

from foundry_airflow.alerts import LONGEST
from foundry_airflow.backends import engine
from foundry_airflow.engines import Follower, pauses
from pipeline_tasks.core.settings import secret_values


class CommandTrigger(BaseTrigger):
    """Fires when the command ``name`` has ended, with the fields of :class:`foundry_airflow.calls.Ended`.

    Its lines go to the task's log. A user who marks or clears the waiting task ends the command.
    """

    def __init__(self, backend: str, name: str) -> None:
        super().__init__()
        self.backend, self.name = backend, name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow makes it again in the triggerer."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"backend": self.backend, "name": self.name}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until it has ended; each look is a short call in a thread, so that others get their turn."""
        for value in secret_values():
            await amask_secret(value)
        follower, said = Follower(await asyncio.to_thread(engine, self.backend), self.name), ""
        for pause_s in pauses():
            lines, ended = await asyncio.to_thread(follower.look)
            for line in lines:
                self.log.info("%s", line)
                said = line
            if ended:
                said = str(redact(said))[:LONGEST]  # Airflow keeps events in its database
                yield TriggerEvent(asdict(replace(ended, said=said)))
                return
            await asyncio.sleep(pause_s)

    async def on_kill(self) -> None:
        """End the command with its task."""
        there = await asyncio.to_thread(engine, self.backend)
        await asyncio.to_thread(there.end, self.name)
