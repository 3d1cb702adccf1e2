"""How long a server of objects that is away or fails is waited for."""

from __future__ import annotations

import logging
import random
from typing import Any

from pipeline_tasks.core.store.s3_errors import is_untrusted

log = logging.getLogger(__name__)
ATTEMPTS = 12
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_TOLD_AT = 5


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
