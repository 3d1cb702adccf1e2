"""Stable names for content: canonical JSON and its sha256."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

ID_LENGTH = 16


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(*values: Any) -> str:
    """sha256 (64 hex digits) of the canonical JSON of ``values``."""
    return hashlib.sha256(canonical_json(list(values))).hexdigest()


def short_id(*values: Any) -> str:
    """The first 16 hex digits of :func:`digest`: how rows and versions are named."""
    return digest(*values)[:ID_LENGTH]


def seed_of(*values: Any) -> int:
    """A 32-bit seed that depends on ``values`` only, never on the clock."""
    return int(digest(*values)[:8], 16)


def unit_hash(*values: Any) -> float:
    """A number in [0, 1) that depends on ``values`` only: for sampling and splits that survive a refresh."""
    return int(digest(*values)[:13], 16) / 16**13


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
