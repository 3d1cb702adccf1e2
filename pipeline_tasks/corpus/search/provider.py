"""What a provider of addresses is, what it sends back, and how it may fail. Everything it sends is hostile."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.wire import clean, retry_after_s

LONGEST_TITLE = 300
LONGEST_URL = 4096
LONGEST_DETAIL = 200


@dataclass(frozen=True)
class Hit:
    """One address that a provider names.

    Attributes:
        url: as the provider gives it; hostile until checked.
        title: cleaned; empty where the provider knows none.
        response_id: the stored answer that it stands in.
    """

    url: str
    title: str = ""
    response_id: str = ""


class Provider(Protocol):
    """Names addresses for a query."""

    name: str

    def search(self, query: str) -> Iterator[Hit]:
        """Addresses for ``query``, best first; a further page is asked for only when the caller iterates to it.

        Raises:
            Refused: this query has no answer.
            InputError: the provider is not set up.
            TransientError: the provider, or a budget, ends all searches for now.
        """


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer, read within limits and without secrets; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def wait_s(self) -> float | None:
        """How long the provider asks to be left alone; None where it does not say."""
        return retry_after_s(self.headers.get("retry-after", ""))


class Spent(TransientError):
    """A budget of ours, or the provider's quota, is used up."""


@dataclass
class Refused(Exception):
    """One query gets no answer, and asking again would not help.

    Attributes:
        reason: short and machine-readable: ``refused`` or ``bad_answer``.
        detail: for a person.
    """

    reason: str
    detail: str


@dataclass
class Busy(Exception):
    """No answer now, perhaps later.

    Attributes:
        reason: ``http_503``, ``unreachable``, ``engines_unresponsive``.
        detail: for a person.
        wait_s: how long the provider asks to wait; None where it does not say.
    """

    reason: str
    detail: str = ""
    wait_s: float | None = None


def json_of(reply: Reply) -> Any:
    """The JSON of a reply with status 200; any other status means the same for every provider.

    Raises:
        Busy: 408, 429 or 5xx.
        InputError: 401 or 403, or a redirect, which is never followed with a key at hand.
        Refused: any other status, or an answer that is not JSON.
    """
    if reply.status in (408, 429) or reply.status >= 500:
        raise Busy(
            f"http_{reply.status}",
            clean(reply.text, LONGEST_DETAIL),
            reply.wait_s,
        )
    if reply.status in (401, 403):
        raise InputError(f"the search provider answers HTTP {reply.status}; check its key and its settings")
    if 300 <= reply.status < 400:
        raise InputError(f"the search provider redirects (HTTP {reply.status}); set its URL to where it is now")
    if reply.status != 200:
        raise Refused("refused", f"HTTP {reply.status} {clean(reply.text, LONGEST_DETAIL)}")
    return parsed(reply.text)


def parsed(text: str) -> Any:
    """``text`` as JSON.

    Raises:
        Refused: it is not.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        said = clean(text, 60)
        raise Refused("bad_answer", f"not JSON ({type(error).__name__}), begins with {said!r}") from None


def page_record(items: Any, *, more: bool) -> dict[str, Any]:
    """What is stored of one page: address and title of each result, and whether another page may follow.

    Raises:
        Refused: ``items`` is no list.
    """
    if not isinstance(items, list):
        raise Refused("bad_answer", f"results are {type(items).__name__}, not a list")
    return {"hits": [_clean_hit(item) for item in items], "more": more}


def hits(answer: Mapping[str, Any], response_id: str) -> Iterable[Hit]:
    """The hits of a stored page."""
    return [Hit(url, title, response_id) for url, title in answer["hits"]]


def _clean_hit(item: Any) -> list[str]:
    found = item if isinstance(item, dict) else {}
    url, title = found.get("url"), found.get("title")
    address = url[: LONGEST_URL + 1].encode(errors="backslashreplace").decode() if isinstance(url, str) else ""
    return [address, clean(title, LONGEST_TITLE) if isinstance(title, str) else ""]
