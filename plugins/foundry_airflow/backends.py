"""Where a step runs. A back-end is given the arguments of ``foundry`` and says how the command ended.

``[foundry] backend`` in the Airflow configuration (``AIRFLOW__FOUNDRY__BACKEND``) names it. The command and its result
are the same everywhere; only the machine differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from foundry_airflow.process import ProcessBackend
from pipeline_tasks.core.errors import EXIT_DONE, EXIT_RETRY
from pipeline_tasks.core.step import Resources


class Backend(Protocol):
    """Runs one ``foundry`` command."""

    def run(self, arguments: list[str], resources: Resources, say: Callable[[str], None]) -> tuple[int, str]:
        """Run ``foundry ARGUMENTS``, line by line of its standard error to ``say``.

        Returns:
            Its exit code (negative: killed by that signal) and the last line of its standard output.
        """

    def cancel(self) -> None:
        """End the command that is running, if any, and everything that it started."""


BACKENDS: dict[str, Callable[[], Backend]] = {"process": ProcessBackend}


def configured_backend() -> Backend:
    """The back-end that the configuration names.

    Raises:
        AirflowFailException: there is none of that name.
    """
    name = conf.get("foundry", "backend", fallback="process")
    if name not in BACKENDS:
        raise AirflowFailException(f"[foundry] backend is {name!r}; it can be: {', '.join(BACKENDS)}")
    return BACKENDS[name]()


def checked(name: str, finished: tuple[int, str]) -> str:
    """The command's last output line, where it ended well.

    Raises:
        AirflowException: worth another try: exit code 75, or killed from outside (memory, a lost machine).
        AirflowFailException: any other exit code; trying again cannot help.
    """
    exit_code, last_line = finished
    if exit_code == EXIT_DONE:
        return last_line
    if exit_code == EXIT_RETRY:
        raise AirflowException(f"{name} asks to be tried again (exit code {exit_code}); its log above says why")
    if exit_code < 0 or exit_code > 128:
        raise AirflowException(f"{name} was killed (exit code {exit_code}); was there enough memory?")
    raise AirflowFailException(f"{name} failed with exit code {exit_code}; its log above says why")
