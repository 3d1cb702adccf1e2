"""What an endpoint says that an answer took, held to what can be."""

from __future__ import annotations

from typing import Any

from pipeline_tasks.core.paid.endpoint.price import Tokens

_MOST = 1 << 40
"""Larger numbers of tokens, or of seconds since 1970, are none."""


def tokens_of(usage: Any) -> Tokens:
    """What it says an answer took; nothing at all where it says what cannot be."""
    if not isinstance(usage, dict):
        return Tokens()
    counts = [whole(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    return Tokens(*(n or 0 for n in counts)) if None not in counts else Tokens()


def whole(value: Any) -> int | None:
    """A number as the lineage can hold it; None where it is no such number."""
    try:
        found = float(value or 0)
    except (ValueError, TypeError, OverflowError):
        return None
    return int(found) if 0 <= found < _MOST else None
