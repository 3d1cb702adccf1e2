"""Where a step runs. A back-end is given a call of ``foundry`` and says how it ended.

``[foundry] backend`` in the Airflow configuration (``AIRFLOW__FOUNDRY__BACKEND``) names it. The command and its result
are the same everywhere; only the machine differs. A new engine, say Slurm, is a module beside ``docker.py`` with an
:class:`foundry_airflow.engines.Engine`, and a line in :data:`ENGINES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from foundry_airflow.calls import EXIT_TIMEOUT, Call, Ended, Say
from foundry_airflow.containers import gpus_of, option
from foundry_airflow.engines import Engine, EngineBackend
from foundry_airflow.process import ProcessBackend
from pipeline_tasks.core.errors import EXIT_DONE, EXIT_RETRY, InputError, installed_with
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.step import Step

ENGINES = {"docker": "foundry_airflow.docker:Docker", "kubernetes": "foundry_airflow.kubernetes:Kubernetes"}
"""Back-end -> engine; imported when one is asked for, with the packages that it needs."""


class Backend(Protocol):
    """Runs one call."""

    def run(self, call: Call, say: Say) -> Ended:
        """Run ``call`` to its end, every line of its log to ``say``.

        Raises:
            TransientError: it was cancelled before the command ran.
        """

    def cancel(self) -> None:
        """End the command that is running, if any, and everything that it started; from now on none runs."""


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
        raise InputError(f"the back-end {name} needs the package {name!r}: {installed_with(name)}") from None


def device_for(step: Step) -> dict[str, str]:
    """The parameter ``device``, part of a version's identity, of a step that has one and runs in a container.

    It is what the container is given, which need not be what this machine has. A process looks for itself.
    """
    if "device" not in step.params.model_fields or configured() == "process":
        return {}
    return {"device": "cuda" if gpus_of(resources_of(step)) else "cpu"}


EMPTY = '""'
"""The empty string as a parameter of a task, where an empty one leaves the step's own."""


def parameters_of(step: Step, values: dict[str, Any]) -> dict[str, Any]:
    """Those of ``values`` that are set, over what the operator's file says and the device of a container."""
    given = {name: "" if value == EMPTY else value for name, value in values.items() if value not in (None, "")}
    return device_for(step) | usual(step) | given


def checked(name: str, ended: Ended) -> str:
    """The command's last output line, where it ended well.

    Raises:
        AirflowException: worth another try: exit code 75, or ended from outside (memory, time, a lost machine).
        AirflowFailException: any other exit code; trying again cannot help.

    Where the command's own log says why, its last line is a note of the error.
    """
    code = ended.exit_code
    if code == EXIT_DONE:
        return ended.last_line
    if ended.why:
        raise AirflowException(f"{name} was ended (exit code {code}): {ended.why}")
    if code == EXIT_RETRY:
        raise _with_last_line(
            AirflowException(f"{name} asks to be tried again (exit code {code}); its log above says why"), ended
        )
    if code == EXIT_TIMEOUT:
        raise AirflowException(f"{name} was ended (exit code {code}): it ran longer than it may")
    if code < 0 or code > 128:
        raise AirflowException(f"{name} was killed (exit code {code}); was there enough memory?")
    raise _with_last_line(AirflowFailException(f"{name} failed with exit code {code}; its log above says why"), ended)


def _with_last_line(error: AirflowException, ended: Ended) -> AirflowException:
    error.add_note(ended.said)
    return error
