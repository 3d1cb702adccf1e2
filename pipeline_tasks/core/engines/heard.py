"""What an actor of a Ray cluster logs while it does a whole step is logged where the step was started."""

from __future__ import annotations

import logging
from typing import Any

from pipeline_tasks.core.engines.actors import Actor

_LISTEN_S, _PATIENCE_S = 1.0, 30.0
"""How long an actor waits for a line before it says that there is none; how long its answer is waited for."""


class Lines:
    """The lines of actors, each with its logger and level.

    Args:
        ray: the module, with a cluster joined.
        wanted: whether anything is asked at all.

    Attributes:
        asked: what actors will answer, by Ray's reference.
    """

    def __init__(self, ray: Any, *, wanted: bool) -> None:
        self._ray, self._wanted = ray, wanted
        self.asked: dict[Any, Actor] = {}

    def follow(self, actor: Actor) -> None:
        """Ask for its next lines."""
        if self._wanted:
            self.asked[self._ask(actor, _LISTEN_S)] = actor

    def tell(self, ref: Any) -> None:
        """Log one of ``asked`` that is answered, and ask on, unless the actor is gone."""
        actor = self.asked.pop(ref)
        if self._logged(ref):
            self.follow(actor)

    def finish(self, actor: Actor) -> None:
        """Log all that is left of an actor whose work has ended."""
        if self._wanted:
            last = [ref for ref, of in self.asked.items() if of is actor]
            for ref in (*last, self._ask(actor, 0)):
                self.asked.pop(ref, None)
                self._logged(ref)

    def _ask(self, actor: Actor, patience_s: float) -> Any:
        return actor.handle.heard.remote(patience_s)

    def _logged(self, ref: Any) -> bool:
        try:
            for name, level, message in self._ray.get(ref, timeout=_PATIENCE_S):
                logging.getLogger(name).log(level, "%s", message)
        except self._ray.exceptions.RayError:
            return False
        return True
