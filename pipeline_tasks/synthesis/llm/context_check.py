"""What an endpoint tells of the room that its models have, held against what a step takes it to be.

vLLM's ``/models`` has ``max_model_len``. llama.cpp's has ``meta``: ``n_ctx_train``, what the model was trained with,
and in newer ones ``n_ctx``, what it is served with; ``/props`` has what one request gets. Others tell nothing.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.paid.endpoint import Endpoint, Fault, Unanswered

log = logging.getLogger(__name__)
_PATIENCE_S = 5.0
_OF_META = ("n_ctx", "n_ctx_train")


def contexts(payload: Any) -> dict[str, int | None]:
    """Model -> tokens that it reads and writes at once, of the reply to ``/models``; None where it does not tell."""
    listed = payload.get("data") if isinstance(payload, dict) else None
    models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {
        str(one.get("id")): _least(one.get("max_model_len"), *(_at(one, "meta", name) for name in _OF_META))
        for one in models
    }


def check_context(endpoint: Endpoint, base_url: str, model: str, context_tokens: int) -> None:
    """Make sure that the endpoint does not tell less than ``context_tokens`` for ``model``.

    Where it tells nothing, or does not answer, nothing is said.

    Raises:
        InputError: it tells less.
    """
    rooms = contexts(_get_json(endpoint, "/models"))
    room = rooms.get(model, next(iter(rooms.values())) if len(rooms) == 1 else None)
    if room is None:
        return
    props = _get_json(endpoint, f"{base_url.rstrip('/').removesuffix('/v1')}/props")
    room = _least(room, _at(props, "default_generation_settings", "n_ctx")) or room
    if room < context_tokens:
        raise InputError(
            f"{endpoint.host} says that {model!r} reads and writes {room} tokens at once, and "
            f"context_tokens={context_tokens} counts on more: --set context_tokens={room}, or have it served with more"
        )


def _get_json(endpoint: Endpoint, path: str) -> Any:
    """The JSON that a GET brings, or None."""
    try:
        return json.loads(endpoint.call("GET", path, once=True, timeout=_PATIENCE_S))
    except (Fault, Unanswered, FoundryError, ValueError, RecursionError) as error:
        log.debug("%s does not tell %s: %s", endpoint.host, path, error)
        return None


def _at(answer: Any, *names: str) -> Any:
    """What stands under these names, one in the other, or None."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def _least(*numbers: Any) -> int | None:
    return min((n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n > 0), default=None)
