"""Words as the library bm25s takes them from texts, and English stop words as it has them.

Where JAX is installed, importing bm25s starts it, and on a machine with a graphics card JAX takes three quarters of the
card's memory at once, which a training beside it then lacks. Nothing here needs what bm25s does with JAX, so bm25s is
imported as if there were none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from pipeline_tasks.core.runtime import versions_of

_JAX = "jax"


def words_version() -> dict[str, str]:
    """What decides the words of a text, for the identity of what is made with them."""
    return versions_of("bm25s")


def tokenized(texts: Sequence[str]) -> tuple[list[str], list[list[int]]]:
    """Distinct words without English stop words, and of each text the places of its words among them."""
    with _without_jax():
        import bm25s

    found = bm25s.tokenize(list(texts), stopwords="en", show_progress=False) if texts else None
    return (list(found.vocab), found.ids) if found else ([], [])


@cache
def stop_words() -> frozenset[str]:
    """The longer of the two lists for English."""
    with _without_jax():
        from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@contextmanager
def _without_jax() -> Iterator[None]:
    """An import of JAX fails meanwhile, unless it has been imported before."""
    hidden = _JAX not in sys.modules
    if hidden:
        sys.modules[_JAX] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[_JAX]
