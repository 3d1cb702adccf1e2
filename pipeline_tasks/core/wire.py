"""What servers say in HTTP answers, made fit for messages and clocks. All of it is hostile."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def clean(text: str, longest: int) -> str:
    """``text`` on one line without control, format and unpaired characters, cut to ``longest``."""
    shown = (c if unicodedata.category(c)[0] != "C" else " " for c in text[: 4 * longest])
    return " ".join("".join(shown).split())[:longest]


def retry_after_s(said: str) -> float | None:
    """Seconds that ``Retry-After`` asks to wait, given as a number or a date; None where it says nothing usable."""
    said = said.strip()
    if _SECONDS.fullmatch(said):
        return float(said)
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def without_user(text: str) -> str:
    """``text`` without what may be a user name or a password in its addresses; for messages."""
    return re.sub(r"//\S*@", "//…@", text)
