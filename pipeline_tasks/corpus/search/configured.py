"""A provider as parameters and this machine's settings have it: what it is told, its address, key and price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.paid.spending import Ledger, Limit, Most, limits
from pipeline_tasks.core.settings import Secret, settings
from pipeline_tasks.core.step import StepParams, tuning
from pipeline_tasks.core.store import Store
from pipeline_tasks.corpus.search.asker import Asker
from pipeline_tasks.corpus.search.brave import KEY_HEADER, Brave
from pipeline_tasks.corpus.search.common_crawl import CommonCrawl
from pipeline_tasks.corpus.search.provider import Provider
from pipeline_tasks.corpus.search.searxng import SearXNG


class SearchWebParams(StepParams):
    """Who is asked, for what, and what it may cost."""

    provider: Literal["searxng", "brave", "common_crawl"] = Field("searxng", description="search API that is asked")
    max_results: int = Field(20, ge=1, description="results kept per search; further pages are asked for up to that")
    language: str = Field("en", description="language of the results, where the provider can be told")
    country: str = Field("US", description="country of the searcher, for Brave")
    crawl: str = Field(
        "", pattern=r"^[A-Za-z0-9-]*$", description="for Common Crawl: its crawl, such as CC-MAIN-2026-43"
    )
    refresh: str = Field("", description="any new value (a date) asks, and pays for, everything again")
    again: str = Field("", description="any new value (a date) retries what has no answer yet, and nothing else")
    concurrency: int = tuning(4, ge=1, description="concurrent searches")
    attempts: int = tuning(4, ge=1, description="tries per request")
    timeout_s: float = tuning(30.0, gt=0, description="seconds without a byte before a try fails")
    requests_per_s: float = tuning(1.0, gt=0, description="requests a second, of all processes together")
    max_requests_per_day: Most = tuning(None, ge=0, description="requests a day (UTC); none: no limit")
    max_requests: Most = tuning(None, ge=0, description="requests ever, with this store; none: no limit")
    max_usd_per_day: Most = tuning(5.0, ge=0, description="dollars a day (UTC); none: no limit")
    max_usd: Most = tuning(None, ge=0, description="dollars ever, with this store; none: no limit")

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """Brave alone wants a key."""
        return declared if self.provider == "brave" else ()

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The budget."""
        of_day = {
            "requests": ("max_requests_per_day", self.max_requests_per_day),
            "usd": ("max_usd_per_day", self.max_usd_per_day),
        }
        ever = {"requests": ("max_requests", self.max_requests), "usd": ("max_usd", self.max_usd)}
        return limits("day", **of_day) + limits("ever", **ever)


@contextmanager
def configured(params: SearchWebParams, store: Store) -> Iterator[tuple[Provider, Asker]]:
    """The provider, ready to be asked, and what it asks with.

    Raises:
        InputError: its address or key is missing.
    """
    found, name = settings(), params.provider
    url = {"searxng": found.searxng_url, "brave": found.brave_url, "common_crawl": found.common_crawl_url}[name]
    key = _brave_key() if name == "brave" else ""
    price_usd = found.brave_price / 1000 if name == "brave" else 0.0
    with Asker(
        name,
        url,
        f"FOUNDRY_{name.upper()}_URL",
        ResponseStore(store),
        Ledger(store, name, params.limits, per_s=params.requests_per_s),
        price_usd=price_usd,
        secret=key,
        headers={KEY_HEADER: key} if key else {},
        refresh=params.refresh,
        attempts=params.attempts,
        timeout_s=params.timeout_s,
    ) as asker:
        if name == "brave":
            yield Brave(asker, params.language, params.country), asker
        elif name == "common_crawl":
            yield CommonCrawl(asker, params.crawl), asker
        else:
            yield SearXNG(asker, params.language), asker


def _brave_key() -> str:
    key = settings().brave_api_key.get_secret_value().strip()
    if not (key and key.isascii() and key.isprintable()):
        raise InputError("Brave wants a key; set BRAVE_API_KEY to one of https://api-dashboard.search.brave.com")
    return key
