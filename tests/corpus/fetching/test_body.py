from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator

import pytest

from pipeline_tasks.corpus.fetching.body import decoded
from pipeline_tasks.corpus.fetching.outcomes import Busy

PDF = b"%PDF-1.7\n" + b"a small document " * 20
PACKED = gzip.compress(PDF)


def inflated(body: bytes, size: int) -> bytes:
    """``body``, sent gzipped in chunks of ``size`` bytes, as it comes out."""

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    async def all_of_it() -> bytes:
        return b"".join([block async for block in decoded(chunks(), {"content-encoding": "gzip"}, 1 << 30)])

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(PACKED), len(PACKED) + 1, 1 << 16])
def test_members_are_joined_and_what_follows_the_last_is_left_out_wherever_chunks_are_cut(size):
    for junk in (b"", b"\x1f", b"\x1fno", b"junk", b"junk" + PACKED):
        assert inflated(PACKED * 3 + junk, size) == PDF * 3
    assert inflated(gzip.compress(bytes(1 << 18)) + PACKED, size) == bytes(1 << 18) + PDF
    with pytest.raises(Busy, match="breaks off"):
        inflated(PACKED + PACKED[:-1], size)


def test_bytes_after_the_end_cost_no_more_each_the_more_there_were():
    began = time.process_time()
    assert inflated(PACKED + bytes(16 << 20), 1 << 10) == PDF
    assert time.process_time() - began < 5
