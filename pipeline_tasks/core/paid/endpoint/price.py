"""What tokens cost. A price is known or said to be free; unsaid, only what runs on this machine is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.wire import is_loopback


class Tokens(NamedTuple):
    """Tokens of one request, or of many."""

    prompt: int = 0
    completion: int = 0


@dataclass(frozen=True)
class Price:
    """Units: US dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, tokens: Tokens) -> float:
        """Dollars for so many tokens."""
        return (tokens.prompt * self.prompt + tokens.completion * self.completion) / 1e6


FREE = Price()


def price_at(url: str, variables: Mapping[str, float | None], listed: Price | None = None) -> Price:
    """The price at ``url``.

    Args:
        url: of the endpoint.
        variables: those that set the price of prompts (and of completions), with their values; None is unset.
        listed: the price where none of them is set and the endpoint is not this machine.

    Raises:
        InputError: one is unset and the endpoint is neither this machine nor listed, or the other one is set.
    """
    unset = [name for name, value in variables.items() if value is None]
    host = urlsplit(url).hostname or ""
    whose = host or "the endpoint"
    if len(unset) == len(variables) and is_loopback(host):
        return FREE
    if len(unset) == len(variables) and listed:
        return listed
    if unset:
        raise InputError(
            f"the price of {whose} is not known: set {' and '.join(unset)} to US dollars per million tokens, or to free"
        )
    return Price(*(value or 0.0 for value in variables.values()))
