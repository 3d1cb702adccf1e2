"""A process that handles what strangers made gives up what it does not need: network, files, rights.

Each layer is tried by itself, since systems differ: containers often allow no namespaces, old kernels have no Landlock.
What holds is returned, for a log or ``foundry doctor`` to say what does not. Nothing here can be undone by the process
or by what it starts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pipeline_tasks.core.confine import files, system_calls
from pipeline_tasks.core.confine.libc import libc, words

NAMESPACE = "a network namespace of its own, without any interface"
CALLS = "a filter of system calls: no sockets, no tracing, no mounts"
FILES = "Landlock: its own libraries to read, nothing to write, no signals to others"
LAYERS = (NAMESPACE, CALLS, FILES)

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/dev/urandom", "/dev/zero")
_NEWUSER, _NEWNET, _NEWIPC = 0x10000000, 0x40000000, 0x08000000
_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522


def leave_network() -> list[str]:
    """Move this process, and all it will start, into namespaces of users, network and IPC of its own.

    Returns ``[NAMESPACE]``, or nothing where the system does not allow it or the process has more than one thread.
    """
    user, group = os.geteuid(), os.getegid()
    if libc().unshare(_NEWUSER | _NEWNET | _NEWIPC):
        return []
    with suppress(OSError):  # without names for its ids a process can read as before
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    return [NAMESPACE]


def confine(readable: Iterable[Path] | None) -> list[str]:
    """Give up new rights, capabilities, writing files, sockets and other processes; and all files but ``readable``.

    Args:
        readable: files and folders that stay readable, and programs in them that may be started; None leaves the file
            system, and what root may do there, to other means, and the filter of calls denies writing.

    Returns:
        Which of ``CALLS`` and ``FILES`` hold.
    """
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(what, (0, 0))
    libc().prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    held = []
    if readable is not None:
        held = [FILES] if files.restrict(readable) else []
        # root in a container, and anybody in a namespace of users, has rights that no reader needs
        libc().capset(words(_CAPABILITY_VERSION, 0), words(*[0] * 6))
    return [CALLS, *held] if system_calls.restrict(writing=readable is not None) else held


def own_code() -> Iterator[Path]:
    """What this project's processes have to read for themselves: the system's libraries, Python, packages, this one."""
    yield from map(Path, (*_SYSTEM, sys.prefix, sys.base_prefix))
    yield Path(__file__).parents[2]
    yield from (Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages"))


def held_here() -> list[str]:
    """Which of ``LAYERS`` hold on this machine, tried in a process of its own."""
    path = str(Path(__file__).parents[3])
    command = [sys.executable, "-P", "-m", __name__]
    tried = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)  # noqa: S603
    return [layer for layer in LAYERS if layer in tried.stdout.splitlines()]
