"""Where an address leads: every hop is an address like the first one, through the guard and within one budget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pipeline_tasks.core.wire import without_user
from pipeline_tasks.corpus.fetching.client import Answer, Budget, Client
from pipeline_tasks.corpus.fetching.outcomes import Refused
from pipeline_tasks.corpus.urls import joined

_REDIRECTS = (301, 302, 303, 307, 308)
Check = Callable[[str], Awaitable[None]]
Headers = Callable[[str], dict[str, str]]


async def anything(url: str) -> None:
    """The check that lets every address pass; the guard has its own."""


def nothing(url: str) -> dict[str, str]:
    """No headers beside the client's own."""
    return {}


@asynccontextmanager
async def follow(
    client: Client, url: str, budget: Budget, headers: Headers, max_redirects: int, check: Check = anything
) -> AsyncIterator[tuple[str, Answer]]:
    """The answer at the end of the redirects of a canonical URL, and the address that gave it.

    Args:
        client: sends requests.
        url: where to begin.
        budget: of all hops together.
        headers: what an address is sent beside the client's own.
        max_redirects: hops after the first request.
        check: passed by every address that is asked.

    Raises:
        Refused: in a circle, too many, to nothing that may be fetched; and what ``client`` and ``check`` refuse.
        Busy: see :meth:`Client.get`.
    """
    seen = {url}
    while True:
        await check(url)
        async with client.get(url, budget, headers(url)) as answer:
            target = _target(url, answer)
            if target is None:
                yield url, answer
                return
        if target in seen:
            raise Refused("redirect_loop", f"{url} leads to {target} again")
        if len(seen) > max_redirects:
            raise Refused("too_many_redirects", f"more than {max_redirects}")
        seen.add(target)
        url = target


def _target(url: str, answer: Answer) -> str | None:
    """Where ``answer`` redirects to; None where it does not.

    Raises:
        Refused: to nothing that may be fetched.
    """
    if answer.status not in _REDIRECTS:
        return None
    location = answer.headers.get("location", "")
    target = joined(url, location) if location else None
    if target is None or target.startswith("file:"):
        raise Refused("bad_redirect", f"to {without_user(location)[:200]!r}")
    return target
