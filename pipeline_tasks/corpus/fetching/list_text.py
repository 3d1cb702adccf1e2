"""A list of addresses from a server, fetched as hostile documents are: guarded, and within limits."""

from __future__ import annotations

import asyncio
import math

from pipeline_tasks import __version__
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.corpus.fetching.body import decoded
from pipeline_tasks.corpus.fetching.client import Budget, Client
from pipeline_tasks.corpus.fetching.guard import Guard
from pipeline_tasks.corpus.fetching.hosts import Hosts, Manners
from pipeline_tasks.corpus.fetching.outcomes import Busy, Refused
from pipeline_tasks.corpus.fetching.redirects import follow, nothing
from pipeline_tasks.corpus.urls import canonical_url

_MANNERS = Manners(delay_s=0.0, per_host=1, concurrency=1, longest_delay_s=0.0)
_TIMEOUT_S = 30.0
_MAX_REDIRECTS = 10


def fetch_list(url: str, max_bytes: int, time_limit_s: float) -> bytes:
    """The bytes of the list at ``url``, decoded; asked once, since the caller may try again.

    Raises:
        InputError: it is no address, on a private network, too large, or not there.
        TransientError: its server is away, busy or too slow.
    """
    address = canonical_url(url)
    if address is None:
        raise InputError(f"source={url!r} is no address; check its spelling, and give no user name in it")
    try:
        return asyncio.run(_fetch(address, max_bytes, time_limit_s))
    except Busy as busy:
        fault = f"{busy.reason} {busy.detail}".strip()
        raise TransientError(f"the list {url} cannot be fetched now: {fault}; check that its server runs") from busy
    except Refused as refused:
        fault = f"the list {url} cannot be fetched: {refused.reason} {refused.detail}".strip()
        if refused.reason == "too_slow":
            raise TransientError(f"{fault}; try again later, or raise time_limit_s") from refused
        remedy = "raise max_bytes" if refused.reason == "too_large" else "check source="
        raise InputError(f"{fault}; {remedy}") from refused


async def _fetch(url: str, max_bytes: int, time_limit_s: float) -> bytes:
    client = Client(
        Guard(settings().allowed_hosts),
        Hosts(_MANNERS),
        user_agent=f"retriever-foundry/{__version__}",
        timeout_s=_TIMEOUT_S,
        longest_wait_s=math.inf,
        connections=1,
    )
    body = bytearray()
    async with client, follow(client, url, Budget(time_limit_s), nothing, _MAX_REDIRECTS) as (_, answer):
        if answer.status != 200:
            raise Refused(f"http_{answer.status}")
        async for block in decoded(answer.chunks, answer.headers, max_bytes):
            body += block
    return bytes(body)
