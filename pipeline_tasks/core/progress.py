"""Progress of anything long: a bar with rate and ETA on a terminal, a log line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

log = logging.getLogger(__name__)
LOG_EVERY_S = 10.0


class Meter:
    """Counts units done out of ``total`` and says so; cheap enough to call per row."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self.label, self.total, self.unit, self.done, self.note = label, total, unit, 0, ""
        self._begun = 0
        self._started = self._said = time.monotonic()

    def begin_at(self, done: int) -> None:
        """So many units were done before: they say nothing of the rate."""
        self.done = self._begun = done
        self._started = time.monotonic()

    def advance(self, n: int = 1, note: str = "") -> None:
        """``n`` more units are done; ``note`` is how it goes, in a few words."""
        self.done += n
        self.note = note
        now = time.monotonic()
        if now - self._said >= LOG_EVERY_S:
            self._said = now
            log.info("%s", self.line(now - self._started))

    def say(self, why: str) -> None:
        """Why nothing is done for a while."""
        log.info("%s: %s", self.label, why)

    def line(self, elapsed_s: float) -> str:
        """One line: done, rate per second and time left."""
        rate = (self.done - self._begun) / elapsed_s if elapsed_s > 0 else 0.0
        left = f"{(self.total - self.done) / rate:.0f} s left" if rate > 0 else "time left unknown"
        line = f"{self.label}: {self.done}/{self.total} {self.unit}, {_digits(rate)} {self.unit}/s, {left}"
        return f"{line}; {self.note}" if self.note else line


def _digits(rate: float) -> str:
    """A rate in digits that tell it, also where one unit takes minutes."""
    return f"{rate:.1f}" if rate >= 1 or not rate else f"{rate:.2g}"


class _Bar(Meter):
    def __init__(self, label: str, total: int, unit: str) -> None:
        super().__init__(label, total, unit)
        self._bars = _bars()
        self._bars.start()
        self._task = self._bars.add_task(label, total=total, unit=unit)

    def begin_at(self, done: int) -> None:
        super().begin_at(done)
        self._bars.reset(self._task, total=self.total, completed=done)

    def advance(self, n: int = 1, note: str = "") -> None:
        self.done += n
        told = f"{self.label}: {note}" if note else self.label
        self._bars.update(self._task, advance=n, total=self.total, description=told)

    def say(self, why: str) -> None:
        self._bars.update(self._task, description=f"{self.label}: {why}")

    def close(self) -> None:
        self._bars.remove_task(self._task)
        if not self._bars.tasks:
            self._bars.stop()


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{_digits(task.speed)} {task.fields['unit']}/s")


@cache
def _bars() -> Progress:
    done = (BarColumn(), MofNCompleteColumn(), _RateColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *done, console=Console(stderr=True), transient=True)


@contextmanager
def meter(label: str, total: int, unit: str) -> Iterator[Meter]:
    """A :class:`Meter` for ``total`` units, drawn where somebody watches."""
    if not sys.stderr.isatty():
        yield Meter(label, total, unit)
        return
    bar = _Bar(label, total, unit)
    try:
        yield bar
    finally:
        bar.close()
