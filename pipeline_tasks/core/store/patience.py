"""How long a server of objects, or what gives the keys to it, is waited for where it is away or fails."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline_tasks.core.store.s3_errors import is_untrusted

log = logging.getLogger(__name__)
ATTEMPTS = 12
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_TOLD_AT = 5
_KEYS_S = 30.0
Got = TypeVar("Got")


def pause_s(attempts: int, response: Any, caught_exception: Exception | None, **_: Any) -> float | None:
    """Seconds until a server that is away or fails is asked again, half a minute in all: one that starts again is back.

    botocore's own pauses come to one second, and end for good after 35 of them.

    Raises:
        SSLError: the server's certificate is not trusted; waiting does not help.
    """
    from botocore.exceptions import ConnectionError as NotReached
    from botocore.exceptions import HTTPClientError

    if caught_exception and is_untrusted(caught_exception):
        raise caught_exception
    away = isinstance(caught_exception, (NotReached, HTTPClientError)) or (response and response[0].status_code >= 500)
    if not away or attempts >= ATTEMPTS:
        return None
    if attempts == _TOLD_AT:
        log.warning("the store's server does not answer; it is asked again for half a minute")
    return wait_s(attempts)


def wait_s(attempts: int) -> float:
    """Seconds between an attempt of this number and the next."""
    return random.uniform(0.5, 1) * min(_FIRST_PAUSE_S * 2 ** (attempts - 1), _LONGEST_PAUSE_S)  # noqa: S311


def with_keys(ask: Callable[[], Got]) -> Got:
    """What ``ask`` gives; asked again for half a minute where what gives this machine its keys is away or fails.

    A role's agent on this machine renews them every few hours. botocore asks it three times and makes no request then,
    so that :func:`pause_s` does not hear of it.

    Raises:
        CredentialRetrievalError: it still fails.
    """
    from botocore.exceptions import CredentialRetrievalError

    until, attempt = time.monotonic() + _KEYS_S, 0
    while True:
        attempt += 1
        try:
            return ask()
        except CredentialRetrievalError as error:
            if time.monotonic() >= until:
                raise
            if attempt == 1:
                log.warning("%s; asked again for half a minute", error)
            time.sleep(wait_s(attempt))
