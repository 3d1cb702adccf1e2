"""Says how each task of a local run ended, how long it took, and remembers where its log lies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.listeners import hookimpl

TAIL_LINES = 30


@dataclass
class _Task:
    began: float
    log_from: int
    log_to: int | None = None


class Reporter:
    """An Airflow listener.

    Args:
        dag_id: the DAG that runs.
        say: told one line per task.
        log_file: where the output of all tasks goes, if it goes to a file.
    """

    def __init__(self, dag_id: str, say: Callable[[str], None], log_file: Path | None) -> None:
        self._dag_id, self._say, self._log_file = dag_id, say, log_file
        self._tasks: dict[str, _Task] = {}
        self._failed = ""

    @hookimpl
    def on_task_instance_running(self, task_instance: Any) -> None:
        """A task starts."""
        self._tasks[_label(task_instance)] = _Task(time.monotonic(), self._position())

    @hookimpl
    def on_task_instance_success(self, task_instance: Any) -> None:
        """A task is done."""
        self._ended(_label(task_instance), "done")

    @hookimpl
    def on_task_instance_skipped(self, task_instance: Any) -> None:
        """A task had nothing to do."""
        self._ended(_label(task_instance), "skipped")

    @hookimpl
    def on_task_instance_failed(self, task_instance: Any, error: Any) -> None:
        """A task failed, perhaps to be tried again."""
        label = _label(task_instance)
        self._ended(label, "FAILED" if task_instance.state == "failed" else "retry")
        self._say(f"    {error}")
        self._tasks[label].log_to = self._position()
        self._failed = label

    def failure(self) -> str:
        """The last task that failed, and the end of its log."""
        if not self._failed:
            return "no task failed"
        task = self._tasks[self._failed]
        if self._log_file is None:
            return self._failed
        text = self._log_file.read_bytes()[task.log_from : task.log_to].decode(errors="replace")
        lines = [line for line in text.splitlines() if line and not line.startswith((" ", "Traceback"))]
        tail = "\n".join(lines[-TAIL_LINES:])
        return f"{self._failed}; its log in {self._log_file}:\n{tail}"

    def _ended(self, label: str, how: str) -> None:
        task = self._tasks.setdefault(label, _Task(time.monotonic(), self._position()))
        self._say(f"{self._dag_id:<18} {label:<48} {how:<8} {time.monotonic() - task.began:6.1f} s")

    def _position(self) -> int:
        return self._log_file.stat().st_size if self._log_file else 0


def _label(task_instance: Any) -> str:
    index = task_instance.map_index
    return task_instance.task_id if index is None or index < 0 else f"{task_instance.task_id}[{index}]"
