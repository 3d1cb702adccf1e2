"""What every benchmark needs: time and peak memory of work in a process of its own, turns, a table, a last line.

The last line holds figures in seconds only where they are sound: see :func:`finish`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

TURNS = 3
# What makes a run void. Limits by judgement: a lead of a quarter must not be a matter of which turn was disturbed.
CORES, OTHERS, APART = 2, 0.1, 0.25

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measured:
    """What ``work`` returned, the seconds it took, and the peak resident memory of its process.

    ``added_mib`` is that peak during the work over what the process held when it began: with what ``prepare`` loaded.
    """

    value: Any
    seconds: float
    peak_mib: float
    added_mib: float


def measured(work: Callable[..., Any], *args: Any, prepare: Callable[..., Any] | None = None) -> Measured:
    """Run ``work(*args)`` in a fresh process, or ``work(prepare(*args))``, of which only the work is timed.

    Both are functions of a module, and arguments and value can be pickled. The peak is that of the whole process:
    interpreter, libraries and prepared data included.

    Raises:
        Exception: what the work raised.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (work, args, prepare))


def _measure(work: Callable[..., Any], args: tuple, prepare: Callable[..., Any] | None) -> Measured:
    given = (prepare(*args),) if prepare else args
    before = _resident_mib("VmHWM")
    Path("/proc/self/clear_refs").write_text("5")
    held = _resident_mib("VmRSS")
    started = time.perf_counter()
    value = work(*given)
    seconds = time.perf_counter() - started
    peak = _resident_mib("VmHWM")
    return Measured(value, seconds, max(before, peak), peak - held)


def _resident_mib(name: str) -> float:
    """``VmHWM``: most since the process began or the mark was reset (``ru_maxrss`` begins with the parent's)."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def sd(values: Sequence[float]) -> float:
    """The standard deviation of a sample; 0 of one value."""
    return float(statistics.stdev(map(float, values))) if len(values) > 1 else 0.0


def show(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table; floats with three digits."""
    table = Table(title=title, title_justify="left")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    Console(width=max(120, Console().width)).print(table)


def _plain(cell: Any) -> str:
    if isinstance(cell, float) and abs(cell) < 1000:
        return f"{cell:.3g}"
    return f"{cell:,.0f}" if isinstance(cell, (int, float)) and not isinstance(cell, bool) else str(cell)


def turns(contestants: Iterable[str], go: Callable[[str], Result]) -> dict[str, list[Result]]:
    """What each contestant gave in each of three turns, in which all have their go: passing load hits them alike."""
    names = list(contestants)
    found = [{name: go(name) for name in names} for _ in range(TURNS)]
    return {name: [turn[name] for turn in found] for name in names}


def spread(seconds: Iterable[float]) -> float:
    """How far the turns of one contestant are apart: the slowest over the fastest, less one.

    Raises:
        ValueError: fewer than three turns.
    """
    seconds = list(seconds)
    if len(seconds) < TURNS:
        raise ValueError(f"{len(seconds)} turns say nothing of how far turns are apart: take {TURNS}")
    return round(max(seconds) / min(seconds) - 1, 2)


@dataclass(frozen=True)
class Clocks:
    """Seconds of all processors together.

    Attributes:
        there: since the machine began.
        busy: of these, used by somebody, or by another machine on the same processor.
        own: of these, used by this process and by those of its children that have ended.
    """

    there: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> Clocks:
        """As they stand."""
        fields = Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:9]
        user, nice, system, idle, waiting, *others = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields)
        busy = user + nice + system + sum(others)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(busy + idle + waiting, busy, sum(one.ru_utime + one.ru_stime for one in used))

    def others_since(self, began: Clocks) -> float:
        """Share of the processors that other processes took since ``began``."""
        used = (self.busy - began.busy) - (self.own - began.own)
        return max(0.0, used) / max(self.there - began.there, 0.01)


def void(spreads: Mapping[str, float], others: float, cores: int) -> list[str]:
    """Why figures in seconds say nothing; no reason where they are sound.

    Args:
        spreads: :func:`spread` of each contestant.
        others: share of the processors that other processes took.
        cores: processors that this process may use.
    """
    reasons = [f"{cores} cores, not {CORES}"] if cores < CORES else []
    if others > OTHERS:
        reasons.append(f"other processes took {others:.0%} of the processors")
    return reasons + [f"{name}: turns {apart:.0%} apart" for name, apart in spreads.items() if apart > APART]


def finish(result: dict[str, Any], spreads: Mapping[str, float] | None = None) -> None:
    """Print the last line, one JSON object: the figures, or that this run is void and why.

    Args:
        result: figures.
        spreads: :func:`spread` of each contestant whose seconds the figures are made of, held in the last line as
            ``spread``; empty where seconds are of one turn. Without it nothing is checked.
    """
    if spreads is None:
        print(json.dumps(result))
        return
    reasons = void(spreads, Clocks.now().others_since(_BEGAN), len(os.sched_getaffinity(0)))
    print(
        f"Void with fewer than {CORES} cores, where others take more than {OTHERS:.0%} of the processors, or where the "
        f"turns of a contestant are more than {APART:.0%} apart: {'; '.join(reasons) or 'none of it here'}."
    )
    print(json.dumps(({"void": reasons} if reasons else result) | {"spread": dict(spreads)}))


_BEGAN = Clocks.now()
