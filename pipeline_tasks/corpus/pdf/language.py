"""Which language a text is in, by py3langid: a model of 5 MB inside the package, 0.3 ms a document."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

_SAMPLES, _SAMPLE_CHARS = 4, 1000
_SURE = 0.9


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> str:
    """ISO 639-1 code of the language of ``text``; ``und`` where its words do not tell.

    Pieces from all over the text are looked at, so that a cover page in another language does not decide.
    """
    words = " ".join(text.split())
    if len(words) > _SAMPLES * _SAMPLE_CHARS:
        step = len(words) // _SAMPLES
        words = " ".join(words[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))
    if sum(map(str.isupper, words)) > sum(map(str.islower, words)):  # in capitals, but for an address perhaps
        words = words.lower()
    language, probability = _identifier().classify(words)
    return language if probability >= _SURE else "und"


def identifier_version() -> str:
    """Distribution and version of what identifies languages: part of the identity of what it accepts."""
    return f"py3langid {version('py3langid')}"
