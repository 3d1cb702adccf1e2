"""From a response's body to a file: decoded, measured, and left as soon as it is clear that it is no PDF."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from pipeline_tasks.corpus.fetching.outcomes import Busy, Refused

_MAGIC = b"%PDF-"
_MAGIC_WITHIN = 1024
_BLOCK = 1 << 16
_GZIP = b"\x1f\x8b"


class _Decoder(Protocol):
    def blocks(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


class Sink:
    """A file that takes at most ``max_bytes``, knows their sha256, and refuses what does not begin like a PDF."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._file = path.open("wb")
        self._sha256 = hashlib.sha256()
        self._head = b""

    def write(self, block: bytes) -> None:
        """Add bytes.

        Raises:
            Refused: too many, or the first ones are not a PDF's.
        """
        self.size_bytes += len(block)
        if self.size_bytes > self._max_bytes:
            raise Refused("too_large", f"more than {self._max_bytes} bytes")
        if len(self._head) < _MAGIC_WITHIN:
            self._head += block[:_MAGIC_WITHIN]
            if len(self._head) >= _MAGIC_WITHIN:
                self._check_magic()
        self._sha256.update(block)
        self._file.write(block)

    def finish(self) -> str:
        """The sha256 of all that was written.

        Raises:
            Refused: it does not begin like a PDF.
        """
        self._check_magic()
        self._file.flush()
        return self._sha256.hexdigest()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _check_magic(self) -> None:
        if _MAGIC not in self._head[:_MAGIC_WITHIN]:
            raise Refused("not_pdf", f"begins with {self._head[:12]!r}")


async def receive(chunks: AsyncIterator[bytes], headers: dict[str, str], sink: Sink, max_bytes: int) -> str:
    """Write a body into ``sink``, decoded; its sha256.

    Raises:
        Refused: it is no PDF; and what :func:`decoded` refuses.
        Busy: it breaks off.
    """
    async for block in decoded(chunks, headers, max_bytes):
        sink.write(block)
    return sink.finish()


async def decoded(chunks: AsyncIterator[bytes], headers: dict[str, str], max_bytes: int) -> AsyncIterator[bytes]:
    """The bytes of a body, decoded, in blocks as they come.

    Raises:
        Refused: it is too large as it comes or decoded, or is encoded in an unknown way.
        Busy: it breaks off.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise Refused("too_large", f"{int(length)} bytes announced, at most {max_bytes}")
    decoder = _decoder(headers.get("content-encoding", "").strip().lower())
    received = size_bytes = 0
    async for chunk in chunks:
        received += len(chunk)
        for block in decoder.blocks(chunk):
            size_bytes += len(block)
            if max(received, size_bytes) > max_bytes:
                raise Refused("too_large", f"more than {max_bytes} bytes")
            yield block
    decoder.finish()


def copy_file(file: BinaryIO, sink: Sink) -> str:
    """Write an open file into ``sink``; its sha256.

    Raises:
        Refused: see :class:`Sink`.
    """
    while block := file.read(_BLOCK):
        sink.write(block)
    return sink.finish()


def _decoder(encoding: str) -> _Decoder:
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Inflate()
    raise Refused("bad_encoding", f"Content-Encoding {encoding[:80]!r} was not asked for")


class _Plain:
    def blocks(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        """Nothing is left."""


class _Inflate:
    """gzip or zlib, a block at a time, so that a small body cannot fill the memory."""

    def __init__(self) -> None:
        self._new()

    def _new(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._after = b""  # the first two bytes after the end: what begins otherwise than gzip is left unread

    def blocks(self, data: bytes) -> Iterator[bytes]:
        block = b""
        while data or len(block) == _BLOCK:
            if self._zlib.eof:  # not asked again: it would copy all that it was given since the end
                data = self._after + data
                self._after = data[: len(_GZIP)]
                if self._after != _GZIP:
                    return
                self._new()
            try:
                block = self._zlib.decompress(data, _BLOCK)
            except zlib.error as error:
                raise Refused("bad_encoding", str(error)) from error
            yield block
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail

    def finish(self) -> None:
        if not self._zlib.eof:
            raise Busy("truncated", "the compressed body breaks off")
