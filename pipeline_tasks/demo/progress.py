"""How far a running task is, for somebody who waits: the lines of progress in the log of a local run, as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

_PROGRESS = re.compile(rb"pipeline_tasks\.core\.progress: (.+?)(?: \[foundry_airflow|\r?\n)")
_EVERY_S = 1.0


@contextmanager
def followed(log: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Say each line of progress that is added to ``log`` inside the context; the file need not be there yet."""
    ended = Event()
    begins_at = log.stat().st_size if log.is_file() else 0
    thread = Thread(target=_follow, args=(log, begins_at, say, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(log: Path, at: int, say: Callable[[str], None], ended: Event) -> None:
    while True:
        last = ended.wait(_EVERY_S)
        if log.is_file():
            with log.open("rb") as file:
                file.seek(at)
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]
            at += len(whole)
            for line in _PROGRESS.findall(whole):
                say(f"    {line.decode(errors='replace')}")
        if last:
            return
