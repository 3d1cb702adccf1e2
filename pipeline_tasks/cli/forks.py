"""Commands of ``foundry``, each in a fork of one process that has imported what they need, so they start at once.

``python -m pipeline_tasks.cli.forks FD MODULE [IMPORTED …]``: FD is a socket over which each :class:`ForkRequest` is
sent, and MODULE has the ``main`` that reads ``sys.argv``. It ends when nobody can ask any more. Linux only: elsewhere a
process that has loaded numerical libraries must not go on in a fork.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module

from pipeline_tasks.core.settings import take_on

_LIMIT = 1 << 20


@dataclass(frozen=True)
class ForkRequest:
    """A command to run in a session of its own.

    Attributes:
        arguments: of ``foundry``.
        environment: all variables that it sees.
    """

    arguments: list[str]
    environment: dict[str, str]

    def send(self, to: socket.socket, output: int, log: int, report: int) -> None:
        """Ask for it.

        Args:
            to: the other end of the server's socket.
            output: file descriptor of its standard output.
            log: file descriptor of its standard error.
            report: file descriptor that gets its process id and, when it has ended, its exit code, a line each; minus
                the signal where one killed it.
        """
        socket.send_fds(to, [json.dumps(asdict(self)).encode()], [output, log, report])


def serve(asking: socket.socket, imported: Sequence[str]) -> ForkRequest | None:
    """Fork for each command that is asked for; returns it in its own process, and None here, once nobody asks.

    Args:
        asking: where it is asked.
        imported: what is imported before the first fork; one that nobody asks costs next to nothing.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, fds, _, _ = socket.recv_fds(asking, _LIMIT, 3)
        if not message:
            return None
        for name in imported:
            with suppress(ModuleNotFoundError):  # then a command that needs it says so
                import_module(name)
        if os.fork() == 0:
            asking.close()
            return _run(ForkRequest(**json.loads(message)), *fds)
        for fd in fds:
            os.close(fd)


def _run(request: ForkRequest, output: int, log: int, report: int) -> ForkRequest:
    """Fork once more, to be there when the command ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        os.close(output)
        os.close(log)
        os.write(report, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    os.setsid()
    os.dup2(output, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    for fd in (output, log, report):
        os.close(fd)
    take_on(request.environment)
    return request


def main() -> None:
    """Entry point."""
    fd, module, *imported = sys.argv[1:]
    request = serve(socket.socket(fileno=int(fd)), [module, *imported])
    if request:
        sys.argv = ["foundry", *request.arguments]
        import_module(module).main()


if __name__ == "__main__":
    main()
