"""Where a step runs. A back-end is given a call of ``foundry`` and says how it ended.

``[foundry] backend`` in the Airflow configuration (``AIRFLOW__FOUNDRY__BACKEND``) names it. The command and its result
are the same everywhere; only the machine differs. A new engine, say Slurm, is a module beside ``docker.py`` with an
:class:`foundry_airflow.engines.Engine`, and a line in :data:`ENGINES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from airflow.sdk.exceptions import AirflowFailException

from foundry_airflow.calls import Call, Ended, Say
from foundry_airflow.containers import option
from foundry_airflow.engines import Engine, EngineBackend
from foundry_airflow.process import ProcessBackend
from pipeline_tasks.core.errors import InputError

ENGINES = {"docker": "foundry_airflow.docker:Docker", "kubernetes": "foundry_airflow.kubernetes:Kubernetes"}
"""Back-end -> engine; imported when one is asked for, with the packages that it needs."""


class Backend(Protocol):
    """Runs one call."""

    def run(self, call: Call, say: Say) -> Ended:
        """Run ``call`` to its end, every line of its log to ``say``."""

    def cancel(self) -> None:
        """End the command that is running, if any, and everything that it started."""


def configured() -> str:
    """The name of the configured back-end.

    Raises:
        AirflowFailException: there is none of that name.
    """
    name = option("backend", "process")
    if name != "process" and name not in ENGINES:
        raise AirflowFailException(f"[foundry] backend is {name!r}; it can be: process, {', '.join(ENGINES)}")
    return name


def backend(name: str) -> Backend:
    """The back-end of that name."""
    return ProcessBackend() if name == "process" else EngineBackend(engine(name))


def engine(name: str) -> Engine:
    """The engine of that name.

    Raises:
        InputError: its packages are not installed.
    """
    module, _, attribute = ENGINES[name].partition(":")
    try:
        return getattr(import_module(module), attribute)()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != name:
            raise
        raise InputError(
            f"the back-end {name} needs the package {name!r}: pip install 'retriever-foundry[{name}]'"
        ) from None
