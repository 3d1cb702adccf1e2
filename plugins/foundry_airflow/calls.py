"""What a back-end is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from pipeline_tasks.core.engines import engine_name
from pipeline_tasks.core.errors import EXIT_RETRY, TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources

COMMAND = ("foundry",)
"""In a container."""
EXIT_TIMEOUT = 124
"""Of ``timeout`` from the GNU core utilities, which ends a command in a container."""
KILLED = 137
"""By SIGKILL."""

FROM_A_FORM = {"FOUNDRY_CALLER": "form"}
"""Parameters of a DAG come from whoever may start it: no back-end takes them for the operator's."""


class Say(Protocol):
    """Told every line that a command logs."""

    def __call__(self, line: str, /) -> None:
        """Take one line."""


@dataclass(frozen=True)
class Call:
    """One ``foundry`` command.

    Attributes:
        step: the step's name.
        version: the version that it makes.
        arguments: of the command.
        resources: what the step may take, and of its secrets those that this run needs.
        group: ``i/n``, or empty.
    """

    step: str
    version: str
    arguments: tuple[str, ...]
    resources: Resources
    group: str = ""

    @property
    def name(self) -> str:
        """The same for the same work in the same store, over all tries and DAG runs; fit for a pod (63 letters)."""
        store = digest(str(settings().store))[:6]
        group = "-" + self.group.replace("/", "-of-") if self.group else ""
        return f"foundry-{self.step[:20].strip('_').replace('_', '-')}-{self.version}-{store}{group}"


def call_of(job: Job, arguments: list[str], group: str) -> Call:
    """The call that makes ``job``."""
    allowed = resources_of(job.step)
    gpus = 0 if engine_name(job.step, job.params) == "ray" else allowed.gpus  # the cluster's nodes have the cards
    resources = replace(allowed, gpus=gpus, secrets=job.params.secrets(allowed.secrets))
    return Call(job.step.name, job.ref.version, tuple(arguments), resources, group)


def cancelled(call: Call) -> TransientError:
    """What a back-end raises in place of running ``call``."""
    return TransientError(f"{call.step} does not run: its task was cancelled")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        exit_code: its own; negative or above 128: killed by a signal.
        last_line: the last line of its standard output.
        why: what ended it from outside, where that is known.
        out_of_memory: the engine knows that it was ended for want of memory.
        said: the last line of its log, for whoever does not read that.
    """

    exit_code: int
    last_line: str = ""
    why: str = ""
    out_of_memory: bool = False
    said: str = ""


def lines_after(log: str, after: str) -> tuple[tuple[str, ...], str]:
    """Lines of ``log`` that are later than the time ``after``, and the time of the last one.

    Before each of them, empty ones too, its engine puts the time, always of one width.
    """
    stamped = [line.partition(" ") for line in log.split("\n")]
    fresh = [(stamp, line) for stamp, _, line in stamped if stamp > after]
    return tuple(line.rstrip() for _, line in fresh if line.strip()), fresh[-1][0] if fresh else after


def starved(exit_code: int, oom_killed: bool) -> bool:
    """Whether a command was ended for want of memory, where its engine says that a process in it was.

    A step that outlived a child of its own ended for other reasons; one that lost a worker asks to be tried again.
    """
    return oom_killed and exit_code in (KILLED, EXIT_RETRY)
