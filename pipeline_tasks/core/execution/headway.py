"""How far unfinished work has come that a kill cannot take, told where another machine can see it.

Who starts a step that goes on from what it had compares this before and after a try: one that came further is no failed
try, however it ended. A map step comes further by finished parts. A step over whole datasets comes further by what it
leaves in its scratch folder (a checkpoint, a line of a journal); only its own machine sees that, so a mark in the store
follows it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.execution import memo
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.store import Store

log = logging.getLogger(__name__)
MARKS = "headway"
LOOK_S = 30.0


def headway(store: Store, job: Job, group: tuple[int, int] | None = None) -> str:
    """Differs from what it was whenever the work has come further."""
    if job.step.kind == "map":
        return f"{len(memo.missing(store, job, group))} parts to go"
    return (store.read(_key(job)) or b"").decode()


@contextmanager
def marking_headway(store: Store, job: Job, folder: Path) -> Iterator[None]:
    """Let the mark of ``job`` follow the files in ``folder``, for a step that goes on from them; at its end it goes.

    In the meantime no cache drops what is laid out there.
    """
    if not job.step.resources.resumes:
        yield
        return
    done = Event()
    watch = Thread(target=_follow, args=(store, _key(job), folder, done), daemon=True, name="headway")
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()
    store.delete(_key(job))


def last_left(store: Store, name: str) -> float:
    """When the scratch folder of that name was last written to on this machine, in seconds; 0 where there is none.

    Links do not count: they lead to inputs, which other steps use, too.
    """
    files = (path for path in (store.scratches / name).rglob("*") if path.is_file() and not path.is_symlink())
    return max((path.stat().st_mtime for path in files), default=0.0)


def _key(job: Job) -> str:
    return f"{MARKS}/{job.ref.version}"


def _follow(store: Store, key: str, folder: Path, done: Event) -> None:
    seen = ""
    over = False
    while not over:
        over = done.wait(LOOK_S)
        found = _looked_at(folder)
        if found and found != seen:
            try:
                store.replace(key, found.encode())
            except FoundryError as error:
                log.warning("how far this step has come cannot be told: %s", error)
            else:
                seen = found


def _looked_at(folder: Path) -> str:
    """A digest of names and sizes of all files in ``folder``; what its links lead to counts as used now.

    So no cache drops that under a long step. Times are left out, since a new try lays out again what it begins with,
    and so is what is half-written and has no name yet, since a new try writes it again. A crawl has a million files:
    these are hashed one by one and added up, in whatever order they come, and nothing is held of them.
    """
    total, start = 0, len(str(folder)) + 1
    try:
        for entry in _entries(folder):
            if entry.is_symlink():
                with suppress(OSError):  # another user's, or gone
                    os.utime(entry.path)
            if not entry.name.endswith(".part") and entry.is_file():
                named = os.fsencode(entry.path[start:])
                total += int.from_bytes(sha256(b"%d %b" % (entry.stat().st_size, named)).digest())
    except OSError:  # the step moves one just now; the next look is soon
        return ""
    return f"{total % 2**256:064x}" if total else ""


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    """All that is in ``folder`` but folders, however deep."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)
            else:
                yield entry
