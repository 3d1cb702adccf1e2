"""Files that are read by ranges of bytes."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import Any


class RangedFile(io.RawIOBase):
    """A file as Python has files, of which a subclass gives ranges.

    Args:
        size_bytes: of the whole file.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size, self._at = size_bytes, 0

    @abstractmethod
    def between(self, first: int, past: int) -> bytes:
        """The bytes from ``first`` to before ``past``, or some that come first of these."""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Let the next read begin there."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, or its beginning; 0 at the end of the file."""
        past = min(self._at + len(buffer), self._size)
        if past <= self._at:
            return 0
        data = self.between(self._at, past)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
