"""What every benchmark needs: time and peak memory of a piece of work in a process of its own, a table, a last line."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


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


def finish(result: dict[str, Any]) -> None:
    """Print ``result`` as the last line: one JSON object."""
    print(json.dumps(result))
