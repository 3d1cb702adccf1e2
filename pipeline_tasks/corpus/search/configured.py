"""A provider as this machine's settings have it: address, key and price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.response_store import ResponseStore
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.brave import KEY_HEADER, Brave
from pipeline_tasks.corpus.search.common_crawl import CommonCrawl
from pipeline_tasks.corpus.search.ledger import Ledger, Limits
from pipeline_tasks.corpus.search.provider import Provider
from pipeline_tasks.corpus.search.searxng import SearXNG


class Choice(Protocol):
    """Which provider, and what it is told."""

    provider: str
    language: str
    country: str
    crawl: str
    refresh: str
    attempts: int
    timeout_s: float


@contextmanager
def configured(choice: Choice, limits: Limits, store: Store) -> Iterator[tuple[Provider, Asker]]:
    """The provider, ready to be asked, and what it asks with.

    Raises:
        InputError: its address or key is missing.
    """
    url, setting, price, access = _access(choice.provider, settings())
    ledger = Ledger(store, choice.provider, price, limits)
    patience = {"refresh": choice.refresh, "attempts": choice.attempts, "timeout_s": choice.timeout_s}
    with Asker(choice.provider, url, setting, ResponseStore(store), ledger, **access, **patience) as asker:
        if choice.provider == "brave":
            yield Brave(asker, choice.language, choice.country), asker
        elif choice.provider == "common_crawl":
            yield CommonCrawl(asker, choice.crawl), asker
        else:
            yield SearXNG(asker, choice.language), asker


def _access(provider: str, found: Settings) -> tuple[str, str, float, dict[str, Any]]:
    """Address, the variable that gives it, dollars a request, and what carries the key."""
    if provider == "common_crawl":
        return found.common_crawl_url, "FOUNDRY_COMMON_CRAWL_URL", 0.0, {}
    if provider == "searxng":
        return found.searxng_url, "FOUNDRY_SEARXNG_URL", 0.0, {}
    key = found.brave_api_key.get_secret_value().strip()
    if not (key and key.isascii() and key.isprintable()):
        raise InputError("Brave wants a key; set BRAVE_API_KEY to one of https://api-dashboard.search.brave.com")
    return found.brave_url, "FOUNDRY_BRAVE_URL", found.brave_price / 1000, {"secret": key, "headers": {KEY_HEADER: key}}
