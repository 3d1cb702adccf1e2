"""The C library, for the calls that Python has no name for."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def words(*values: int) -> ctypes.Array[ctypes.c_uint32]:
    """32-bit numbers as the kernel reads them."""
    return (ctypes.c_uint32 * len(values))(*values)
