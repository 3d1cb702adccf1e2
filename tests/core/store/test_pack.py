"""The bytes of a pack: what is found of it again, and what is not taken for one."""

from __future__ import annotations

import hashlib
import random

import pytest

from pipeline_tasks.core.store.pack import key_of, members, packed
from pipeline_tasks.core.store.protocol import Entry


def entry(data: bytes, modified: float = 1.5) -> Entry:
    sha256 = hashlib.sha256(data).hexdigest()
    return Entry(f"objects/{sha256[:2]}/{sha256}.parquet", len(data), modified)


def listed(pack: bytes) -> list[Entry] | None:
    found = members(lambda first, past: pack[first:past], len(pack))
    return None if found is None else [Entry(key_of(row), int(row["size"]), float(row["modified"])) for row in found]


def ends_in_zeros() -> bytes:
    """Bytes whose sha256 ends in a zero byte, which numpy's strings do not keep."""
    return next(data for n in range(10_000) if hashlib.sha256(data := b"%d" % n).digest()[-1] == 0)


@pytest.mark.parametrize("n", [1, 7, 3_000])
def test_every_member_is_found_where_it_lies(n):
    draw = random.Random(n)
    pieces = [draw.randbytes(draw.randrange(1, 60)) for _ in range(n - 1)] + [ends_in_zeros()]
    entries = [entry(piece, 1e9 + at) for at, piece in enumerate(pieces)]
    pack = packed(zip(entries, pieces, strict=True))
    assert listed(pack) == entries
    found = members(lambda first, past: pack[first:past], len(pack))
    assert [pack[row["at"] : row["at"] + row["size"]] for row in found] == pieces


def test_bytes_that_are_not_what_names_them_are_not_packed():
    with pytest.raises(ValueError, match="objects/"):
        packed([(entry(b"this"), b"that")])


def test_an_end_that_is_not_as_written_tells_nothing():
    pack = packed([(entry(piece), piece) for piece in (b"one", b"two")])
    for at in range(len(pack) - 160, len(pack)):
        broken = pack[:at] + bytes([pack[at] ^ 1]) + pack[at + 1 :]
        assert at < len(b"onetwo") or listed(broken) is None, at
    for cut in (b"", pack[:40], pack[:-1], pack[:-10]):
        assert listed(cut) is None
