"""What an endpoint's failure means: a refused row, something to mend, or another try. No message carries a secret."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError
from pipeline_tasks.core.wire import clean, retry_after_s

MAX_DETAIL_CHARS = 200
ROW_STATUSES = (400, 413, 422)
_PASSING = (408, 409, 425)
_OVERLOADED = (429, 529)
_NOT_OFFERED = re.compile(r"\b(un|not |no .* is )supported\b", re.IGNORECASE)
"""What llama.cpp answers 500 to, however often it is asked."""


@dataclass
class Unanswered(Exception):
    """One request has no answer, and others may have.

    Attributes:
        reason: short and machine-readable.
        detail: for a person.
        code: the endpoint's own word for it.
    """

    reason: str
    detail: str
    code: str = ""


class Refused(Unanswered):
    """The endpoint does not accept this request, however often it is asked."""


class NoAnswer(Unanswered):
    """The endpoint failed at this request again and again, while it answered others."""


class Silent(TransientError):
    """The endpoint failed at one request in all attempts, and answered no other meanwhile; ``detail`` says how."""

    def __init__(self, host: str, detail: str, attempts: int) -> None:
        super().__init__(f"{host} {detail} in all of {attempts} attempts; see that it is up, and try again")
        self.detail = f"{detail} in {attempts} attempts"
        self._said = host, detail, attempts

    def __reduce__(self) -> tuple[type[Silent], tuple[str, str, int]]:
        """As another process makes it anew."""
        return Silent, self._said


@dataclass
class Fault(Exception):
    """A try failed; another may not.

    Attributes:
        kind: for counters.
        detail: for a person.
        wait_s: how long the endpoint asks to wait.
    """

    kind: str
    detail: str
    wait_s: float | None = None


class TooMany(Fault):
    """Nobody may ask for a while."""


@dataclass(frozen=True)
class MessageNames:
    """What messages call things.

    Attributes:
        host: the endpoint, without anything that may be secret.
        model: the model asked for.
        key: the variable that holds the key.
        url: the variable that holds the address.
    """

    host: str
    model: str
    key: str = "OPENAI_API_KEY"
    url: str = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def meaning(reply: Reply, named: MessageNames, secret: str) -> Exception:
    """The error that a reply with another status than 200 is."""
    status = reply.status
    said, code = _error_message(reply, secret)
    wait_s = retry_after_s(reply.headers.get("retry-after", ""))
    detail = f": {said}" if said else ""
    if is_used_up(status, code):
        return InputError(f"the account at {named.host} is used up ({status}){detail}; pay there, then run it again")
    if status in _OVERLOADED or (status == 503 and wait_s is not None):
        return TooMany(str(status), f"answered {status}{detail}", wait_s=wait_s)
    if status == 501 or (status == 500 and _NOT_OFFERED.search(said)):
        return Refused("refused_request", f"{status}{detail}", code)
    if status in _PASSING or status >= 500:
        return Fault(str(status), f"answered {status}{detail}", wait_s=wait_s)
    if status in ROW_STATUSES:
        return Refused("refused_request", f"{status}{detail}", code)
    return _to_mend(status, detail, named)


def is_used_up(status: int, code: str) -> bool:
    """Whether an error says that nothing is left in the account."""
    return status == 402 or code == "insufficient_quota" or code.startswith("billing")


def _to_mend(status: int, detail: str, named: MessageNames) -> FoundryError:
    host, model = named.host, named.model
    if status == 401:
        return InputError(f"{host} refused the API key (401); set {named.key} to a key that is valid there")
    if status == 403:
        return InputError(f"{host} forbids this key to use {model!r} (403); use another key or model")
    if status == 404:
        return InputError(
            f"{host} has no model {model!r} or no such API (404){detail}; check the model's name, the version path of "
            f"{named.url} and which api is asked for"
        )
    if 300 <= status < 400:
        return InputError(f"{host} redirects ({status}); set {named.url} to where it is now")
    return InputError(f"{host} refused the request for {model!r} ({status}){detail}; correct model or parameters")


def _error_message(reply: Reply, secret: str) -> tuple[str, str]:
    """The endpoint's own message, short and without the key, and its code for it."""
    error = _error_of(reply.body)
    code = error.get("code") or error.get("type")
    said = error.get("message") or error.get("detail")
    if not isinstance(said, str) or reply.status in (401, 403):
        said = ""
    if secret:
        said = said.replace(secret, "***")
    return clean(said, MAX_DETAIL_CHARS), code if isinstance(code, str) else ""


def _error_of(body: bytes) -> dict[str, Any]:
    """The object that tells of an error: ``{"error": {...}}``, or the whole answer; the first of a list."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    answer = next(iter(answer), None) if isinstance(answer, list) else answer
    error = answer.get("error", answer) if isinstance(answer, dict) else {}
    return error if isinstance(error, dict) else {"message": error}
