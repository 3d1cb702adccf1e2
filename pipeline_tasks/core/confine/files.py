"""Landlock: the kernel refuses this process, and all it starts, every file that was not named.

Source: https://docs.kernel.org/userspace-api/landlock.html; numbers from the kernel's ``linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from pipeline_tasks.core.confine.libc import libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_ASK_VERSION = 1
_BELOW_PATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_RIGHTS_ON_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Version of Landlock -> how many rights on files it knows; later versions know as many as the last."""
_HAS_NETWORK, _HAS_SCOPES = 4, 6
_TCP = 0b11
_SIGNALS_AND_ABSTRACT_SOCKETS = 0b11


def version() -> int:
    """The version of Landlock in this kernel; 0 for none."""
    return max(0, libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def restrict(readable: Iterable[Path]) -> bool:
    """Leave only what lies at or below ``readable``, to be read and started; False where there is no Landlock.

    ``/dev/null`` stays writable: programs open it so. Of processes outside, none can be traced or, from version 6 on,
    be sent a signal. Needs ``no_new_privs``.
    """
    found = version()
    if not found:
        return False
    rights = (1 << _RIGHTS_ON_FILES[min(found, max(_RIGHTS_ON_FILES))]) - 1
    handled = [rights]
    if found >= _HAS_NETWORK:
        handled.append(_TCP)
    if found >= _HAS_SCOPES:
        handled.append(_SIGNALS_AND_ABSTRACT_SOCKETS)
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    rules = libc().syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(rules, path, _READ_FILE | _EXECUTE)
        _allow(rules, Path(os.devnull), _READ_FILE | _WRITE_FILE)
        return libc().syscall(_RESTRICT_SELF, rules, 0) == 0
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there needs no permission
        return
    try:
        rule = struct.pack("=Qi", rights | (_READ_DIR if path.is_dir() else 0), place)
        libc().syscall(_ADD_RULE, rules, _BELOW_PATH, rule, 0)
    finally:
        os.close(place)
