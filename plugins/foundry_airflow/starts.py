"""How a child process of this machine begins: anew, or where many follow each other as a fork of one that has begun.

A step of a few seconds spends most of them on imports. :func:`forks` is for who runs many such steps from one process
or from forks of it, as :mod:`foundry_airflow.local_run` and :mod:`foundry_airflow.scheduler` do. Elsewhere a step's
process begins anew.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import IO, Protocol

from foundry_airflow.calls import Call
from pipeline_tasks.cli.forks import ForkRequest
from pipeline_tasks.core.settings import FOR_LIBRARIES, inherited

IMPORTED = {
    "cpu": (
        "pipeline_tasks.cli.run",
        "pipeline_tasks.core.execution.memo",
        "pyarrow.parquet",
        "pandas",
        "numba",
        "faiss",
    ),
    "gpu": ("torch", "transformers.models.auto", "transformers.modeling_utils"),
}
"""Image of a step -> what its process imports in any case, or in most; pyarrow asks for pandas where it is there."""


class Child(Protocol):
    """What there is to do with a process that runs; as of :class:`subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended; subprocess.TimeoutExpired if that takes longer."""


class Fork:
    """A fork of a server's, which writes its process id and then its exit code to ``reports``."""

    def __init__(self, reports: IO[str]) -> None:
        self.pid = int(reports.readline())
        self._exit_code: int | None = None
        self._ended = Event()
        Thread(target=self._watch, args=(reports,), daemon=True).start()

    def _watch(self, reports: IO[str]) -> None:
        with reports:
            self._exit_code = int(reports.readline() or -signal.SIGKILL)  # whoever tells was killed, too
        self._ended.set()

    def poll(self) -> int | None:
        """As of :class:`Child`."""
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        """As of :class:`Child`."""
        if not self._ended.wait(timeout) or self._exit_code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self._exit_code


class Server:
    """A process that forks; it ends with this one. It imports when it is first asked, here or in a fork of this one."""

    def __init__(self, module: str, imported: Sequence[str]) -> None:
        self._asks, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "pipeline_tasks.cli.forks", str(asked.fileno()), module, *imported]
        environment = FOR_LIBRARIES | inherited(()) | import_path()
        self.process = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[asked.fileno()], start_new_session=True
        )
        asked.close()

    def start(self, arguments: Sequence[str], environment: dict[str, str], output: int, log: int) -> Fork:
        """A command in a fork, with the descriptors as its standard output and standard error."""
        here, there = os.pipe()
        ForkRequest(list(arguments), environment).send(self._asks, output, log, there)
        os.close(there)
        return Fork(os.fdopen(here))

    def has_ended(self) -> bool:
        """Whether it has ended."""
        asks = select.poll()
        asks.register(self._asks, 0)
        return bool(asks.poll(0))  # that the other end hung up is told in any case

    def end(self) -> None:
        """Ask nothing any more, nor let a fork of this process ask."""
        with suppress(OSError):
            self._asks.shutdown(socket.SHUT_RDWR)
        self._asks.close()
        self.process.wait()


class _Forks:
    """The servers of this process, one for each image."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._servers = {image: self._server(image) for image in IMPORTED}

    def _server(self, image: str) -> Server:
        return Server(self._module, IMPORTED["cpu"] + (IMPORTED["gpu"] if image == "gpu" else ()))

    def of(self, call: Call) -> Server:
        image = call.resources.image
        if self._servers[image].has_ended():
            self._servers[image] = self._server(image)
        return self._servers[image]

    def end(self) -> None:
        for server in self._servers.values():
            server.end()


_forks: list[_Forks] = []


@contextmanager
def forks(command: Sequence[str]) -> Iterator[None]:
    """Child processes of ``python -m MODULE`` are forks until the end, where the system allows it.

    They are in forks of this process, too, which need not ask for it again.
    """
    if _forks or sys.platform != "linux":
        yield
        return
    there = _Forks(command[-1])
    _forks.append(there)
    try:
        yield
    finally:
        _forks.clear()
        there.end()


def start(command: Sequence[str], call: Call, environment: dict[str, str], output: IO[str], log: IO[str]) -> Child:
    """Begin ``command`` with the arguments of ``call``, in a session of its own.

    Args:
        command: what comes before the arguments.
        call: what is to run.
        environment: all variables that it sees.
        output: where its standard output goes.
        log: where its standard error goes.
    """
    if _forks:
        return _forks[0].of(call).start(call.arguments, environment, output.fileno(), log.fileno())
    return subprocess.Popen(  # noqa: S603
        [*command, *call.arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def import_path() -> dict[str, str]:
    """Where a child finds what this process imports."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
