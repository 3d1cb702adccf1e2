"""A disk without space or rights, in our errors: where, what is missing, and what to do about it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError
from pipeline_tasks.core.store.protocol import Store

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on the size of a file (`ulimit -f`) is reached",
}
_REMEDY = (
    "free some space (`foundry gc --dry-run` says what may go), or use a larger disk (FOUNDRY_STORE, "
    "FOUNDRY_STORE_CACHE, FOUNDRY_SCRATCH and FOUNDRY_CACHE say where things are), and try again: finished work is kept"
)


@contextmanager
def space_in(*folders: Path) -> Iterator[None]:
    """Turn the failure of a write into one of ``folders`` for want of space into ours; names the fullest of them.

    Where a node of a cluster writes, it has to be said there: whoever waits for it has other disks.

    Raises:
        TransientError: the disk is full, a quota used up, or a file may not grow as large.
    """
    try:
        yield
    except FoundryError:
        raise
    except Exception as error:
        why = shortage(error)
        if not why:
            raise
        free, folder = min((_free_bytes(folder), str(folder)) for folder in folders)
        raise TransientError(
            f"no space is left in {folder} on {gethostname()}: {why}, {free:,} bytes are free; {_REMEDY}"
        ) from error


def space_beside(store: Store) -> AbstractContextManager[None]:
    """:func:`space_in` a store's folders and that of temporary files, which a computation writes to."""
    return space_in(store.folder, store.scratches, Path(gettempdir()))


@contextmanager
def writable(place: object, remedy: str) -> Iterator[None]:
    """Turn the system's refusal of a path into ours: a missing folder, a file in its place, missing rights.

    Raises:
        InputError: ``place`` cannot be written, and what to do about it.
    """
    try:
        yield
    except OSError as error:
        if shortage(error):
            raise
        raise InputError(f"{place} cannot be written ({error}); {remedy}") from error


@contextmanager
def readable(root: Path) -> Iterator[None]:
    """Turn the refusal of a file or folder of the store in ``root`` into ours.

    Raises:
        InputError: this user may not read it, and what to do about it.
    """
    try:
        yield
    except PermissionError as error:
        raise InputError(
            f"{error.filename} cannot be read ({error.strerror}): it is another user's, who gives the right to all by "
            f"`chmod -R a+rX {root}`"
        ) from error


@contextmanager
def not_lost(path: Path) -> Iterator[None]:
    """Turn the want of a file that was made for the block, and that another process dropped, into ours.

    Raises:
        TransientError: it is gone; an erasure drops all unfinished files.
    """
    try:
        yield
    except FileNotFoundError as error:
        if str(error.filename) != str(path) or path.exists():
            raise
        raise TransientError(f"{path} went while it was in use, as by an erasure; try again") from error


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free


def shortage(error: BaseException | None) -> str:
    """What ran out, or nothing: libraries raise errors of their own after the system's, or quote it in theirs."""
    while error:
        for code, message in _FULL.items():
            if getattr(error, "errno", None) == code or os.strerror(code) in str(error):
                return message
        error = error.__cause__ or error.__context__
    return ""


def files_below(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    """All files below ``folder``; twenty times as fast as ``rglob``."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir():
            yield from files_below(entry.path)
        else:
            yield entry


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have ``folder`` alone of all processes on this machine, made anew or as a killed one left it.

    Whoever is done with it removes it within the block.
    """
    lock = folder.with_suffix(".lock")  # a file: NFS locks no folder
    while True:
        with lock.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not is_open_as(handle.fileno(), lock):
                continue
            try:
                folder.mkdir(exist_ok=True)
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def is_open_as(handle: int, path: Path) -> bool:
    """Whether ``path`` still names the open file; a lock's holder deletes it, those who waited open a new one."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
