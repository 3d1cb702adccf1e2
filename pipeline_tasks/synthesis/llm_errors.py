"""What an endpoint's failure means for the caller: correct something, or try again. No message carries a secret."""

from __future__ import annotations

import unicodedata
from typing import Any

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError

MAX_DETAIL_CHARS = 200


def as_foundry_error(error: Any, host: str, model: str, api_key: str) -> FoundryError:
    """The error to raise for ``error``, which the openai package raised once its retries were spent.

    Args:
        error: an ``openai.APIError``.
        host: the endpoint, for the message.
        model: the model asked for.
        api_key: never shown; cut out of what the endpoint said.
    """
    status = getattr(error, "status_code", None)
    detail = _detail(error, api_key)
    if status == 401:
        return InputError(f"{host} refused the API key (401); set OPENAI_API_KEY to a key that is valid there")
    if status == 403:
        return InputError(f"{host} forbids this key to use {model!r} (403); use another key or model")
    if status == 404:
        return InputError(
            f"{host} has no model {model!r} or no such API (404){detail}; check the model's name, "
            "the version path of OPENAI_BASE_URL and whether api is 'completions' or 'chat'"
        )
    if status is None or status in (408, 409, 429) or status >= 500:
        what = f"answered {status}" if status else f"cannot be reached ({type(error).__name__})"
        return TransientError(f"{host} {what} through all retries{detail}; see that the endpoint is up, and try again")
    return InputError(f"{host} refused the request for {model!r} ({status}){detail}; correct model or parameters")


def is_refusal(error: Any) -> bool:
    """Whether the endpoint refused this one prompt for its content: an answer about the passage, not a failure."""
    return getattr(error, "status_code", None) == 400 and getattr(error, "code", None) == "content_filter"


def _detail(error: Any, api_key: str) -> str:
    """The endpoint's own message, on one line, short, and without the key."""
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    if not isinstance(said, str) or getattr(error, "status_code", None) in (401, 403):
        return ""
    if api_key:
        said = said.replace(api_key, "***")
    line = " ".join("".join(c if unicodedata.category(c)[0] != "C" else " " for c in said).split())
    return f": {line[:MAX_DETAIL_CHARS]}" if line else ""
