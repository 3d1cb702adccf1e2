"""What people would pick instead to find near-duplicate documents; each yields those that repeat an earlier one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from benchmarks.planted_documents import SHINGLE

if TYPE_CHECKING:
    from datasketch import MinHash

THRESHOLD = 0.8
WORD = re.compile(r"\w+")


def shingles(text: str) -> list[str]:
    """Runs of three lower-case words, as users of the libraries make them."""
    words = WORD.findall(text.lower())
    return [" ".join(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)]


def rensa(texts: list[str]) -> Iterable[int]:
    """RMinHashDeduplicator with its index, fed in batches; 32 bands, for at its own choice it misses two of five."""
    from rensa import RMinHashDeduplicator

    index = RMinHashDeduplicator(THRESHOLD, 128, True, 32)
    for first in range(0, len(texts), 1024):
        batch = [(str(i), shingles(texts[i])) for i in range(first, min(first + 1024, len(texts)))]
        yield from (first + i for i, new in enumerate(index.add_pairs(batch)) if not new)


def datasketch_update(texts: list[str]) -> Iterable[int]:
    """MinHash.update, shingle by shingle, as its documentation begins."""
    from datasketch import MinHash

    def sketch(text: str) -> MinHash:
        made = MinHash(128)
        for shingle in shingles(text):
            made.update(shingle.encode())
        return made

    return _datasketch(map(sketch, texts))


def datasketch_bulk(texts: list[str]) -> Iterable[int]:
    """MinHash.update_batch with xxh32, its fastest way."""
    from datasketch import MinHash
    from xxhash import xxh32_intdigest

    def sketch(text: str) -> MinHash:
        made = MinHash(128, hashfunc=xxh32_intdigest)
        made.update_batch([shingle.encode() for shingle in shingles(text)])
        return made

    return _datasketch(map(sketch, texts))


def _datasketch(sketches: Iterable) -> Iterable[int]:
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    for i, sketch in enumerate(sketches):
        if index.query(sketch):
            yield i
        else:
            index.insert(i, sketch)
