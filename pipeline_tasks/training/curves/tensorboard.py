"""Training curves as the event files that TensorBoard reads; it need not be installed where they are written.

A file is records of: length (8 bytes), its checksum, a message, its checksum; all little-endian. The checksum is
CRC-32C, rotated and shifted so that checksums of checksums stay sound. A message is a protocol buffer ``Event``: wall
time (field 1), step (2), version of the format (3) or a summary (5), which holds a tag (1) and a number (2).

Source: TensorFlow, ``core/lib/io/record_writer.h``, ``core/util/event.proto`` and ``core/framework/summary.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

_FORMAT = b"brain.Event:2"
_POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits reversed


def events(rows: Iterable[Mapping[str, float | None]], wall_time: float) -> Iterator[bytes]:
    """The records of a file.

    Args:
        rows: each with ``optimiser_step``; any other value that is not empty is a point of the curve of its name.
        wall_time: seconds since 1970, the same for all.
    """
    yield _record(_time(wall_time) + _bytes(3, _FORMAT))
    for row in rows:
        at = _time(wall_time) + _step(int(row["optimiser_step"] or 0))
        for name, value in row.items():
            if name != "optimiser_step" and value is not None:
                point = _bytes(1, name.encode()) + b"\x15" + struct.pack("<f", value)
                yield _record(at + _bytes(5, _bytes(1, point)))


def _record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _checksum(length) + message + _checksum(message)


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4)."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    def reduced(crc: int) -> int:
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        return crc

    return tuple(map(reduced, range(256)))


def _time(seconds: float) -> bytes:
    return b"\x09" + struct.pack("<d", seconds)


def _step(number: int) -> bytes:
    return b"\x10" + _varint(number) if number else b""  # a number that is 0 is left out


def _bytes(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])
