"""Two values that differ, cut to what fits a page so that their first difference is seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from pipeline_tasks.core.lineage.detail import MOST_CHARS, MOST_ITEMS, clipped

_BEFORE = 80
"""Characters shown of what is alike before the first difference."""
_NONE = object()


def beside(old: Any, new: Any) -> tuple[Any, Any]:
    """Both as :func:`clipped` has them, but for what is too long.

    A long text begins a little before the first character that differs, a long list with the first item that does,
    behind how many are alike before it.
    """
    if isinstance(old, str) and isinstance(new, str):
        start = max(0, _alike(old, new) - _BEFORE) if max(len(old), len(new)) > MOST_CHARS else 0
        return _text(old, start), _text(new, start)
    if isinstance(old, dict) and isinstance(new, dict):
        return _pair({name: (old.get(name, _NONE), new.get(name, _NONE)) for name in {**old, **new}})
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return _lists(old, new)
    return clipped(old), clipped(new)


def _lists(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    start = _alike(old, new) if max(len(old), len(new)) > MOST_ITEMS else 0
    shown = slice(start, start + MOST_ITEMS)
    items = dict(enumerate(zip_longest(old[shown], new[shown], fillvalue=_NONE)))
    before = [f"… {start:,} alike"] if start else []
    sides = zip((old, new), _pair(items), strict=True)
    cut = [
        [*before, *side.values(), *([f"… {len(of) - shown.stop:,} more"] if len(of) > shown.stop else [])]
        for of, side in sides
    ]
    return cut[0], cut[1]


def _pair(items: dict[Any, tuple[Any, Any]]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Old and new of each name; what only one side has is left out of the other."""
    old: dict[Any, Any] = {}
    new: dict[Any, Any] = {}
    for name, (a, b) in items.items():
        left, right = beside(a, b) if _NONE not in (a, b) else (clipped(a), clipped(b))
        old |= {} if a is _NONE else {name: left}
        new |= {} if b is _NONE else {name: right}
    return old, new


def _text(value: str, start: int) -> str:
    end = start + MOST_CHARS
    return f"{'…' if start else ''}{value[start:end]}{'…' if len(value) > end else ''}"


def _alike(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many characters or items both begin with."""
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
