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
from pathlib import Path
from threading import Event, Thread

from pipeline_tasks.core import memo
from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.ids import digest
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
def told(store: Store, job: Job, folder: Path) -> Iterator[None]:
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
        _use(folder)
        found = _files(folder)
        if found and found != seen:
            try:
                store.replace(key, found.encode())
            except FoundryError as error:
                log.warning("how far this step has come cannot be told: %s", error)
            else:
                seen = found


def _use(folder: Path) -> None:
    """Have what the links of ``folder`` lead to count as used now, so that no cache drops it under a long step."""
    with suppress(OSError):  # the step moves a folder just now; the next look is soon
        for path in folder.rglob("*"):
            if path.is_symlink():
                with suppress(OSError):  # another user's, or gone
                    os.utime(path)


def _files(folder: Path) -> str:
    """The digest of names and sizes; not of times, since a new try lays out again what it begins with.

    What is half-written counts only once it has its name: a new try writes it again.
    """
    try:
        whole = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part")
        files = [(str(path.relative_to(folder)), path.stat().st_size) for path in whole]
    except OSError:  # the step moves one just now
        return ""
    return digest(sorted(files)) if files else ""
