"""The sentences of a text."""

from __future__ import annotations

import re

_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|\n+")
_SHORTEST = 20


def sentences(text: str) -> list[str]:
    """Sentences as they stand in ``text``, without bullets; none that is too short to be known again."""
    found, start = [], 0
    for end in [match.end() for match in _END.finditer(text)] + [len(text)]:
        found.append(text[start:end].strip(" \t\n·•*-–"))
        start = end
    return [sentence for sentence in found if len(sentence) >= _SHORTEST]
