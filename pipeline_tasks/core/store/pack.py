"""One pack: many small objects of a bucket in one large one, as they were, and where each of them lies.

The bytes of its members one after another, then a row of :data:`MEMBER` for each, then the sha256 of these rows, their
number and eight fixed bytes. A pack is named by the sha256 of all its bytes, as an object is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import numpy as np

from pipeline_tasks.core.store.protocol import Entry, sha256_in

PREFIX = "packs"
PACK_BYTES = 64 << 20
"""What a pack comes to: as much as one request writes, whose sha256 the server checks."""
MEMBER = np.dtype([("sha256", "S32"), ("at", "<u8"), ("size", "<u4"), ("modified", "<f8")])
"""A member: its sha256, its first byte in the pack, how many it has, and when it was written, in seconds since 1970."""
_MARK = b"\x89PACKED\n"
_SHA_BYTES, _COUNT_BYTES = 32, 8
_END_BYTES = _SHA_BYTES + _COUNT_BYTES + len(_MARK)
_TAIL_BYTES = 64 << 10
_SUFFIX = ".parquet"


def pack_key(data: bytes) -> str:
    """The key of a pack with these bytes."""
    return f"{PREFIX}/{sha256(data).hexdigest()}"


def may_be_packed(key: str) -> bool:
    """Whether ``key`` is that of a part of rows."""
    return key.endswith(_SUFFIX) and bool(sha256_in(key))


def digest_of(key: str) -> bytes:
    """The sha256 that names an object, as :data:`MEMBER` holds it, without zero bytes at its end."""
    return bytes.fromhex(sha256_in(key)).rstrip(b"\0")


def key_of(member: Any) -> str:
    """The key of the object that a row of :data:`MEMBER` tells of."""
    name = bytes(member["sha256"]).ljust(_SHA_BYTES, b"\0").hex()
    return f"objects/{name[:2]}/{name}{_SUFFIX}"


def packed(members: Iterable[tuple[Entry, bytes]]) -> bytes:
    """The pack of these objects, in this order.

    Raises:
        ValueError: the bytes of one are not those that it is named by.
    """
    pieces, rows, at = [], [], 0
    for entry, data in members:
        if sha256(data).hexdigest() != sha256_in(entry.key):
            raise ValueError(entry.key)
        rows.append((digest_of(entry.key), at, len(data), entry.modified))
        pieces.append(data)
        at += len(data)
    index = np.array(rows, MEMBER).tobytes()
    return b"".join([*pieces, index, sha256(index).digest(), len(rows).to_bytes(_COUNT_BYTES, "little"), _MARK])


def members(fetch: Callable[[int, int], bytes], size_bytes: int) -> np.ndarray | None:
    """The members of a pack, in the order of its bytes; None where its end is not what was written.

    Args:
        fetch: gives its bytes from a place to before another.
        size_bytes: of the pack.
    """
    tail = fetch(max(0, size_bytes - _TAIL_BYTES), size_bytes)
    end = tail[-_END_BYTES:]
    if len(end) != _END_BYTES or not end.endswith(_MARK):
        return None
    count = int.from_bytes(end[_SHA_BYTES:][:_COUNT_BYTES], "little")
    length = count * MEMBER.itemsize + _END_BYTES
    if length > size_bytes:
        return None
    if length > len(tail):
        tail = fetch(size_bytes - length, size_bytes)
    index = tail[-length:-_END_BYTES]
    return np.frombuffer(index, MEMBER) if sha256(index).digest() == end[:_SHA_BYTES] else None
