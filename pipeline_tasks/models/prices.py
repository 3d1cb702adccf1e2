"""Prices of language models as data: typed entries of ``data/prices.toml``, and of a file of the user's own."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import Price
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.registry import DATA, Entry

_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


class Listed(Entry):
    """What one model takes at one host."""

    host: str = Field(min_length=1, description="of the endpoint's address")
    model: str = Field(min_length=1, description="the endpoint's name of it")
    prompt: float = Field(ge=0, description="dollars per million tokens of prompts")
    completion: float = Field(ge=0, description="dollars per million tokens of answers")
    as_of: date = Field(description="when that was its price")

    @property
    def price(self) -> Price:
        """The price without its date."""
        return Price(self.prompt, self.completion)


class _File(Entry):
    price: tuple[Listed, ...]


def listed(model: str, host: str = "") -> Listed | None:
    """The price of ``model`` at ``host``, or at whatever host has it where none is named; None where nobody knows.

    Raises:
        InputError: the file that the settings name is no list of prices.
    """
    entries = _price_entries()
    for name in (model, _SNAPSHOT.sub("", model)):
        for entry in entries:
            if entry.model == name and host in ("", entry.host):
                return entry
    return None


def models_listed(host: str) -> list[str]:
    """The models whose prices at ``host`` are known."""
    return list(dict.fromkeys(entry.model for entry in _price_entries() if entry.host == host))


def _price_entries() -> list[Listed]:
    files = [settings().llm_prices, DATA / "prices.toml"]
    return [entry for file in files if file for entry in _entries(file)]


@cache
def _entries(file: Path) -> tuple[Listed, ...]:
    try:
        return _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).price
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{file}: {where}: {first['msg']}; see pipeline_tasks/models/data/prices.toml") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as prices ({error}); mend FOUNDRY_LLM_PRICES") from error
