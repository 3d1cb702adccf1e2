"""The back-end ``process``: a child process on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from threading import Thread
from typing import IO

from foundry_airflow.calls import EXIT_TIMEOUT, FROM_A_FORM, Call, Ended, Say, cancelled
from foundry_airflow.starts import Child, import_path, start
from pipeline_tasks.core.settings import inherited

COMMAND = (sys.executable, "-m", "pipeline_tasks.cli.main")
GRACE_S = 3.0
"""Airflow ends a cancelled task itself after 5 s, and nobody would be left to end its step."""


class ProcessBackend:
    """Runs a command in a process group of its own, which ends with the task, unless that is killed with SIGKILL."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._cancelled = False

    def run(self, call: Call, say: Say) -> Ended:
        """Run ``call`` with this process's import path; see :class:`foundry_airflow.backends.Backend`.

        Of this process's environment it gets what the machine is like and the secrets of its step, not Airflow's.
        """
        if self._cancelled:
            raise cancelled(call)
        environment = inherited(call.resources.secrets) | import_path() | FROM_A_FORM
        read, written = os.pipe()
        with tempfile.TemporaryFile("w+", errors="replace") as output, os.fdopen(read, errors="replace") as lines:
            with os.fdopen(written, "w") as log:
                self._child = start(COMMAND, call, environment, output, log)
            reader = Thread(target=_relay, args=(lines, say), daemon=True)
            reader.start()
            try:
                if self._cancelled:  # while it started, and there was nothing to end yet
                    self._end()
                exit_code = self._child.wait(call.resources.timeout_minutes * 60 or None)
            except subprocess.TimeoutExpired:
                exit_code = EXIT_TIMEOUT
            finally:
                self._end()
                reader.join()
            output.seek(0)
            last = output.read().strip().splitlines()[-1:]
        return Ended(exit_code, "".join(last).strip())

    def cancel(self) -> None:
        """Ask the group to end, and end what is left of it after a while; from now on none begins."""
        self._cancelled = True
        self._end()

    def _end(self) -> None:
        if self._child is None:
            return
        if self._child.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


def _relay(lines: IO[str], say: Say) -> None:
    for line in lines:
        if line.strip():
            say(line.rstrip())
