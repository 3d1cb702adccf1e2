"""One HTTP request: at its host's turn, through the guard, with every failure told as one of two errors."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import httpcore

from pipeline_tasks.core.wire import retry_after_s
from pipeline_tasks.corpus.fetching.guard import Guard
from pipeline_tasks.corpus.fetching.hosts import Host, Hosts
from pipeline_tasks.corpus.fetching.outcomes import Busy, Refused
from pipeline_tasks.corpus.urls import DEFAULT_PORTS

_COME_BACK = (408, 425, 429)
_AWAY: dict[int, Literal["host", "address"]] = {429: "host", 502: "address", 503: "address", 504: "address"}
_KEEP_ALIVE_S = 10.0


@dataclass(frozen=True)
class Answer:
    """A response whose body is still to be read.

    Attributes:
        status: HTTP status.
        headers: by lower-case name; the last of several.
        chunks: the body as it comes from the wire, encoded as it is.
    """

    status: int
    headers: dict[str, str]
    chunks: AsyncIterator[bytes]


class Budget:
    """Seconds that one address may spend on the network, over all tries and redirects; waiting for a turn is free."""

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left = seconds

    @asynccontextmanager
    async def spend(self) -> AsyncIterator[None]:
        """Stop the block when the time is up.

        Raises:
            Refused: it is.
        """
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                yield
        except TimeoutError as error:
            raise Refused("too_slow", f"not done within {self._seconds:g} s") from error
        finally:
            self._left -= time.monotonic() - started


class Client:
    """Sends requests for as long as its context is open.

    Args:
        guard: opens connections.
        hosts: take turns.
        user_agent: who asks.
        timeout_s: seconds without a byte before a try fails.
        longest_wait_s: a server that wants to be left alone for longer is not asked again.
        connections: open at once, at most.
    """

    def __init__(
        self, guard: Guard, hosts: Hosts, *, user_agent: str, timeout_s: float, longest_wait_s: float, connections: int
    ) -> None:
        self.requests = 0
        self._hosts = hosts
        self._user_agent = user_agent
        self._timeout = dict.fromkeys(("connect", "read", "write"), timeout_s)
        self._longest_wait_s = longest_wait_s
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=guard, max_connections=connections, keepalive_expiry=_KEEP_ALIVE_S
        )

    async def __aenter__(self) -> Client:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._pool.aclose()

    def host(self, url: str) -> Host:
        """The host of ``url``."""
        return self._hosts[urlsplit(url).netloc]

    @asynccontextmanager
    async def get(self, url: str, budget: Budget, headers: dict[str, str]) -> AsyncIterator[Answer]:
        """The answer to one GET of a canonical URL; redirects are not followed.

        Raises:
            Busy: nobody answers, the answer breaks off, or it says "later".
            Refused: the guard, the host's silence or the time limit forbids it.
        """
        parts = urlsplit(url)
        host = self.host(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
        address = httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=port, target=target)
        sent = {"Host": parts.netloc, "User-Agent": self._user_agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        options = {"timeout": self._timeout}
        async with host.turn(url), budget.spend():
            self.requests += 1
            with _busy_on_network_errors():
                response = await self._pool.handle_async_request(
                    httpcore.Request("GET", address, headers=list((sent | headers).items()), extensions=options)
                )
            try:
                found = {name.decode("latin-1").lower(): _text(value) for name, value in response.headers}
                self._check_status(response.status, found, host)
                yield Answer(response.status, found, _chunks(response))
            finally:
                await response.aclose()

    def _check_status(self, status: int, headers: dict[str, str], host: Host) -> None:
        if status not in _COME_BACK and status < 500:
            return
        wait_s = retry_after_s(headers.get("retry-after", "")) or 0.0
        if wait_s > self._longest_wait_s:
            host.leave(wait_s)
            raise Refused(f"http_{status}", f"asks to be left alone for {wait_s:.0f} s", passing=True)
        host.pause(wait_s)
        raise Busy(f"http_{status}", away=_AWAY.get(status, ""))


async def _chunks(response: httpcore.Response) -> AsyncIterator[bytes]:
    with _busy_on_network_errors(reading=True):
        async for chunk in response.aiter_stream():
            yield chunk


@contextmanager
def _busy_on_network_errors(*, reading: bool = False) -> Iterator[None]:
    """Failures of the network, told as :class:`Busy`."""
    try:
        yield
    except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
        late = isinstance(error, httpcore.ConnectTimeout)
        raise Busy("timeout" if late else "unreachable", _error_text(error), away="host") from error
    except httpcore.TimeoutException as error:
        raise Busy("timeout", "no byte for too long", away="address") from error
    except (httpcore.NetworkError, httpcore.RemoteProtocolError, ssl.SSLError) as error:
        # httpcore makes an SSLError its own only in the handshake
        raise Busy("truncated" if reading else "bad_response", _error_text(error)) from error
    except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol) as error:
        raise Refused("bad_url", _error_text(error)) from error


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _text(value: bytes) -> str:
    """A header's value; most servers mean UTF-8, the standard says latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
