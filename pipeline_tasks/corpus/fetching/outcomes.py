"""How an address may end, and why one try may fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(eq=False)
class Refused(Exception):
    """Why an address gives no document; another try would not help, another hour may where it is ``passing``."""

    reason: str
    detail: str = ""
    passing: bool = False


@dataclass(eq=False)
class Busy(Exception):
    """Why a try failed that may work later.

    Attributes:
        reason: in a word.
        detail: what a person needs to know.
        away: ``host``: no matter of this address, every try says so; ``address``: perhaps of this one alone.
    """

    reason: str
    detail: str = ""
    away: Literal["", "host", "address"] = ""


@dataclass(frozen=True)
class Limits:
    """What one address may cost.

    Attributes:
        max_bytes: largest document, on the wire and decoded.
        attempts: tries.
        time_limit_s: seconds on the network, all tries and redirects together.
        max_redirects: redirects followed.
    """

    max_bytes: int
    attempts: int
    time_limit_s: float
    max_redirects: int


@dataclass(frozen=True)
class Outcome:
    """The end of one address.

    Attributes:
        url_id: the address.
        end: ``fetched`` (new bytes), ``unchanged`` (HTTP 304), or ``refused``.
        reason: why it was refused.
        detail: what a person needs to know.
        attempts: tries made.
        sha256: of the bytes.
        size_bytes: number of bytes.
        status: HTTP status, 0 for a file.
        fetched_url: where redirects led.
        etag: the server's ETag.
        last_modified: the server's Last-Modified.
        passing: why it was refused may be another minute's: its server was away, busy, or broke off.
    """

    url_id: str
    end: Literal["fetched", "unchanged", "refused"]
    reason: str = ""
    detail: str = ""
    attempts: int = 1
    sha256: str = ""
    size_bytes: int = 0
    status: int = 0
    fetched_url: str = ""
    etag: str = ""
    last_modified: str = ""
    passing: bool = False


@dataclass(frozen=True)
class PriorFetch:
    """What is known of a document that was fetched before.

    Attributes:
        doc_id: its id.
        sha256: of its bytes.
        fetched_url: the address that gave them; the next two mean nothing to another one.
        etag: sent as If-None-Match.
        last_modified: sent as If-Modified-Since.
    """

    doc_id: str
    sha256: str
    fetched_url: str
    etag: str
    last_modified: str
