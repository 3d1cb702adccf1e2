"""Whole replies of an endpoint over HTTP, within time and size. No redirect is followed: it would take the key on."""

from __future__ import annotations

import time
from typing import Any

import httpx

from pipeline_tasks import __version__
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint.errors import Fault, Reply

LARGEST_REPLY = 64 << 20
LARGEST_FILE = 4 * LARGEST_REPLY
"""Of what a batch asked, which an endpoint takes up to 200 MB of, or answered."""
UNREACHABLE = "unreachable"
"""The one fault after which nothing can have been billed."""


class Transport:
    """Safe to share between threads.

    Args:
        base_url: with the version path.
        secret: sent as bearer token; may be empty.
        timeout_s: seconds until a reply has to begin, and then to be whole.
        connections: how many are kept open.
    """

    def __init__(self, base_url: str, secret: str, timeout_s: float, connections: int) -> None:
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"),
            headers={"User-Agent": f"retriever-foundry/{__version__}"}
            | ({"Authorization": f"Bearer {secret}"} if secret else {}),
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=connections),
            follow_redirects=False,
        )

    def close(self) -> None:
        """End all connections."""
        self._http.close()

    def send(self, method: str, path: str, *, largest: int = LARGEST_REPLY, **sent: Any) -> Reply:
        """The whole reply to a request, within time and size.

        Args:
            method: of HTTP.
            path: below the base address.
            largest: bytes that it may have.
            sent: ``json``, ``data``, ``files``, ``params``, ``headers`` or ``timeout``, as httpx has them.

        Raises:
            Fault: it could not be had; of the kind :data:`UNREACHABLE` where nothing was sent.
        """
        data, is_late = bytearray(), False
        try:
            with self._http.stream(method, path, **sent) as answer:
                ends = time.monotonic() + self._timeout_s  # what was sent, a file perhaps, took its own time
                for block in answer.iter_bytes():
                    if is_late:  # and there is more: a reply that is whole is kept
                        raise Fault("timeout", f"was not done in {self._timeout_s:g} s")
                    data += block
                    if len(data) > largest:
                        raise Fault("bad_answer", f"sent more than {largest} bytes")
                    is_late = time.monotonic() > ends
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Fault(UNREACHABLE, f"cannot be reached ({type(error).__name__})") from None
        except httpx.TimeoutException as error:
            raise Fault("timeout", f"did not answer ({type(error).__name__})") from None
        except httpx.RequestError as error:
            raise Fault("cut_off", f"cut its answer off ({type(error).__name__})") from None
        return Reply(answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, bytes(data))


def checked_host(base_url: str, setting: str) -> str:
    """The endpoint without anything that may be secret, fit for messages.

    Raises:
        InputError: it is no http(s) URL, or carries a secret; ``setting`` is named in its place.
    """
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, UnicodeError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(f"{setting} is no http(s) URL; set it to one such as http://127.0.0.1:8080/v1")
    if url.userinfo or url.query or url.fragment:
        raise InputError(
            f"{setting}, at {url.host}, carries a user name, query or fragment; a key has a variable of its own"
        )
    return f"{url.host}:{url.port}" if url.port else url.host
