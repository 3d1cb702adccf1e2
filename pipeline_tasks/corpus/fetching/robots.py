"""What a site lets us fetch: robots.txt, asked for once per crawl and site.

Source: RFC 9309. 4xx: everything is allowed. 5xx, 429 or no answer: nothing is. Up to five redirects, 500 KiB.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from protego import Protego

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.corpus.fetching.body import decoded
from pipeline_tasks.corpus.fetching.client import Budget, Client
from pipeline_tasks.corpus.fetching.outcomes import Busy, Limits, Refused
from pipeline_tasks.corpus.fetching.retry import retrying
from pipeline_tasks.corpus.urls import joined

_HOPS = 5
_MAX_BYTES, _MOST_RECEIVED = 500 << 10, 64 << 20
_IN_MEMORY = 1000
_REDIRECTS = (301, 302, 303, 307, 308)
_NAMED = re.compile(r"\s*(?:user-agent|useragent|user agent)\s*:([^#]+)", re.IGNORECASE)
_NAMED_WITHOUT_COLON = re.compile(
    r"\s*(?:user-agent|useragent|user\s+agent)\s((?:[^#:]|:(?=[^\s#]))+)(?:#|$)", re.IGNORECASE
)
_MOST_NAMES = 8
_LARGEST = 10**9
"""Of the two numbers of a rate: a file may hold some that no division can take."""


class Robots:
    """Rules by site; kept as files in ``folder``, so that a killed crawl does not ask again.

    Args:
        client: sends requests.
        folder: where the answers are kept.
        user_agent: its first word is what rules are looked up for.
        limits: tries, and seconds on the network per site.
    """

    def __init__(self, client: Client, folder: Path, user_agent: str, limits: Limits) -> None:
        self._client = client
        self._folder = folder
        self._agent = user_agent.split("/")[0].split()[0]
        self._limits = limits
        self._rules: OrderedDict[str, Protego] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        folder.mkdir(exist_ok=True)

    async def check(self, url: str) -> None:
        """Pass where robots.txt allows ``url``; tell its host to keep the delay that is asked for.

        Raises:
            Refused: it does not, or cannot be had.
        """
        parts = urlsplit(url)
        rules = await self._of(f"{parts.scheme}://{parts.netloc}")
        with _parsing():
            allowed = rules.can_fetch(url, self._agent)
            delay_s, rate = rules.crawl_delay(self._agent) or 0.0, rules.request_rate(self._agent)
        if not allowed:
            raise Refused("robots_denied", "robots.txt does not allow it")
        if rate and rate.requests:
            delay_s = max(delay_s, min(rate.seconds, _LARGEST) / min(rate.requests, _LARGEST))
        self._client.host(url).slow_down(delay_s)

    async def _of(self, site: str) -> Protego:
        lock = self._locks.setdefault(site, asyncio.Lock())
        async with lock:
            if site not in self._rules:
                text = await self._text(site)
                with _parsing():
                    self._rules[site] = Protego.parse(for_agent(text, self._agent))
                if len(self._rules) > _IN_MEMORY:
                    self._locks.pop(self._rules.popitem(last=False)[0], None)
            self._rules.move_to_end(site)
            return self._rules[site]

    async def _text(self, site: str) -> str:
        kept = self._folder / f"{short_id(site)}.json"
        found = _read_stored(kept)
        if found is None:
            try:
                found = {"text": await retrying(self._limits.attempts)(self._ask, f"{site}/robots.txt")}
            except Busy as busy:
                why = "robots_unreachable" if busy.reason.startswith("http_") else busy.reason
                found = {"reason": why, "detail": f"robots.txt: {busy.reason} {busy.detail}".strip(), "passing": True}
            except Refused as refused:
                found = asdict(refused) | {"detail": f"robots.txt: {refused.detail}"}
            unfinished = kept.with_suffix(".part")
            unfinished.write_text(json.dumps(found), "utf-8")
            unfinished.replace(kept)
        if "text" in found:
            return found["text"]
        raise Refused(**found)

    async def _ask(self, url: str) -> str:
        budget = Budget(self._limits.time_limit_s)
        for _ in range(_HOPS + 1):
            async with self._client.get(url, budget, {}) as answer:
                if answer.status == 200:
                    return await _start(decoded(answer.chunks, answer.headers, _MOST_RECEIVED))
                moved = answer.status in _REDIRECTS and answer.headers.get("location")
                target = joined(url, moved) if moved else None
                if target is None or target.startswith("file:"):
                    return ""
                url = target
        return ""


@contextmanager
def _parsing() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a hostile file provokes ends its own site alone
        raise Refused("robots_unreachable", f"robots.txt: {type(error).__name__}: {str(error)[:200]}") from error


def for_agent(text: str, agent: str) -> str:
    """A robots.txt with as few names as say what ``agent`` may fetch; all others are one name that nobody has.

    The parser gives every rule of a group to every name of it, so that a file of many names and rules would take its
    product in memory. Of names that ``agent`` contains the longest count.
    """
    lines = text.splitlines()
    read = ((at, _NAMED.match(line) or _NAMED_WITHOUT_COLON.match(line)) for at, line in enumerate(lines))
    named = {at: found[1].strip() for at, found in read if found}
    ours = {name for name in named.values() if (bare := name.lower().replace("*", "")) and bare in agent.lower()}
    kept = {"*", *sorted(ours, key=len)[-_MOST_NAMES:]}
    for at, name in named.items():
        if name and name not in kept:
            lines[at] = f"user-agent: not-{agent}"
    return "\n".join(lines)


def _read_stored(path: Path) -> dict[str, Any] | None:
    """What was asked before; None where nothing was, or a power cut took it."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


async def _start(chunks: AsyncIterator[bytes]) -> str:
    data = b""
    async for chunk in chunks:
        data += chunk
        if len(data) >= _MAX_BYTES:
            break
    return data[:_MAX_BYTES].decode("utf-8-sig", "replace")
