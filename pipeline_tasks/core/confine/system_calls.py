"""A seccomp filter: the kernel answers "not permitted" to system calls that reach out of a process.

It holds where namespaces are forbidden, which is the rule in containers, and for sockets on the file system, which a
network namespace does not hide. Calls are denied by number, the rest stays: what libraries need differs too much.

Source: ``seccomp(2)``, and the kernel's ``linux/filter.h`` and ``linux/seccomp.h``; numbers of calls from
``asm/unistd_64.h`` (x86_64) and ``asm-generic/unistd.h`` (aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator

from pipeline_tasks.core.confine.libc import libc

_DENIED = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "socketpair": (53, 199),
    "ptrace": (101, 117),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "finit_module": (313, 273),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),  # its operations open sockets behind the filter's back
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
}
_WRITES = {
    "truncate": (76, 45),
    "rename": (82, None),
    "mkdir": (83, None),
    "rmdir": (84, None),
    "creat": (85, None),
    "link": (86, None),
    "unlink": (87, None),
    "symlink": (88, None),
    "mkdirat": (258, 34),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "linkat": (265, 37),
    "symlinkat": (266, 36),
    "renameat2": (316, 276),
    "openat2": (437, 437),  # hides its flags from a filter
}
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_OPENS = (((2, None), 1, _TO_WRITE), ((257, 56), 2, _TO_WRITE))
"""Numbers of open and openat, which argument is their flags, and which of these are denied."""
_CLONE, _CLONE3 = (56, 220), 435
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_PROCESSORS = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_OTHER_X86_ABI = 0x40000000  # the same calls by other numbers

_SECCOMP = (317, 277)
_SET_FILTER, _ALL_THREADS = 1, 1
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ANSWER_ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16


def restrict(*, writing: bool = True) -> bool:
    """Deny the calls to every thread of this process and to all it starts; False where that cannot be.

    Without ``writing`` no file can be opened to be written, made, emptied, renamed or removed either. Needs
    ``no_new_privs``.
    """
    if platform.machine() not in _PROCESSORS:
        return False
    column, processor = _PROCESSORS[platform.machine()]
    program = b"".join(struct.pack("=HBBI", *line) for line in _program(column, processor, writing))
    lines = ctypes.create_string_buffer(program, len(program))
    sock_fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(lines))
    return libc().syscall(_SECCOMP[column], _SET_FILTER, _ALL_THREADS, sock_fprog) == 0


def _program(column: int, processor: int, writing: bool) -> Iterator[tuple[int, int, int, int]]:
    """Lines of (operation, lines to skip if true, lines to skip if false, operand)."""
    no = (_RETURN, 0, 0, _ANSWER_ERROR | errno.EPERM)
    yield from ((_LOAD, 0, 0, _PROCESSOR), (_IF_EQUAL, 1, 0, processor), no)
    yield (_LOAD, 0, 0, _NUMBER)
    if column == 0:
        yield from ((_IF_AT_LEAST, 0, 1, _OTHER_X86_ABI), no)
    for numbers in (*_DENIED.values(), *(() if writing else _WRITES.values())):
        if numbers[column] is not None:
            yield from ((_IF_EQUAL, 0, 1, numbers[column]), no)
    # clone3 hides its flags from a filter; told that it does not exist, the C library takes clone
    yield from ((_IF_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ANSWER_ERROR | errno.ENOSYS))
    yes = (_RETURN, 0, 0, _ALLOW)
    for numbers, argument, bits in ((_CLONE, 0, _NAMESPACES), *(() if writing else _OPENS)):
        if numbers[column] is not None:
            load = (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument)
            yield from ((_IF_EQUAL, 0, 4, numbers[column]), load, (_IF_ANY_BIT, 0, 1, bits), no, yes)
    yield yes
