"""How the pairs of a domain differ from one another: what ``traits.toml`` lets be drawn for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline_tasks.core.ids import digest, unit_hash
from pipeline_tasks.domains.intents import load_intents, read_toml

FILE = "traits.toml"
ANY = "any"

Values = Annotated[dict[str, Annotated[float, Field(gt=0)]], Field(min_length=1)]
"""What the writer is told -> how often, beside the trait's other values."""
Traits = Mapping[str, Values]


def load_traits(domain: Path, intent: str) -> Traits:
    """The traits of ``intent`` by name: its own, and those of any intent; none where the domain has no such file.

    Raises:
        InputError: the file is not TOML, or a trait has no value with a weight above 0.
    """
    path = domain / FILE
    found = read_toml(path, dict[str, dict[str, Values]]) if path.is_file() else {}
    return found.get(ANY, {}) | found.get(intent, {})


def traits_sha256(domain: Path) -> str:
    """What writers that follow instructions are told beside the prompt files: the intents' meanings, and traits."""
    path = domain / FILE
    meanings = {name: intent.model_dump(exclude={"instruction"}) for name, intent in load_intents(domain).items()}
    return digest(meanings, path.read_text(encoding="utf-8") if path.is_file() else "")


def draw(traits: Traits, *key: str) -> tuple[str, ...]:
    """One value of each trait, in the order of the traits; the key alone decides."""
    return tuple(_drawn(values, unit_hash("trait", name, *key)) for name, values in traits.items())


def _drawn(values: Values, at: float) -> str:
    """The value in whose stretch of [0, 1) the point ``at`` lies; a stretch is as long as its weight."""
    left = at * sum(values.values())
    for value, weight in values.items():
        left -= weight
        if left < 0:
            return value
    return value
