"""Worker processes as their parent sees them: started, talked to, watched, ended."""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter

from pipeline_tasks.core.confine import CALLS, LAYERS, NAMESPACE
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.settings import bare_environment
from pipeline_tasks.corpus.frames import receive, send
from pipeline_tasks.corpus.pdf.model import PdfText, Unreadable
from pipeline_tasks.corpus.worker_server import BORN, ENDED

log = logging.getLogger(__name__)
_SERVER = "pipeline_tasks.corpus.worker_server"
_GROUP, _TIMES = 2, slice(11, 15)
"""Fields of /proc/PID/stat after the name: the process group, and ticks of its own and of children waited for."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_S = 600.0
_SAID = TypeAdapter(tuple[float, PdfText | Unreadable | str | None])
"""What a worker says, which a hostile file may have taken over: JSON, every field of its own type, nothing else."""


@dataclass(frozen=True)
class End:
    """How a process ended.

    Attributes:
        code: its exit code; of a signal the number, negative.
        grown_mib: the most memory that it held at once, beyond what it began with.
    """

    code: int
    grown_mib: float


class WorkerProcess:
    """One worker, forked from a server that all workers of this process share.

    Raises:
        TransientError: it could not be started.
    """

    def __init__(self, function: Callable[[bytes], Any], cpu_s: float, memory_mib: int, patience_s: float) -> None:
        self.talk, their_talk = socket.socketpair()
        self._life, their_life = socket.socketpair()
        self._longest = memory_mib << 20
        with their_talk, their_life:
            _server.ask(pickle.dumps((function, cpu_s, memory_mib)), [their_talk.fileno(), their_life.fileno()])
        self._patience_s = patience_s
        self._rss_kib = 0
        self._end: End | None = None
        (self.pid,) = BORN.unpack(self._receive(BORN.size))

    def await_confined(self) -> None:
        """Wait until the worker has given up what it must not have.

        Raises:
            TransientError: it ended before it had.
        """
        self.talk.settimeout(_START_S)
        try:
            layers, self._rss_kib = json.loads(receive(self.talk, self._longest))
        except (EOFError, OSError) as error:
            raise TransientError(f"a worker did not start ({self.end()}); what it said is above: try again") from error
        self.talk.settimeout(self._patience_s)
        _tell(tuple(layers))

    def give(self, item: bytes) -> None:
        """Hand over an item.

        Raises:
            OSError: the worker is gone, or takes nothing.
        """
        send(self.talk, item)

    def answer(self) -> tuple[float, PdfText | Unreadable | str | None]:
        """Processor seconds that the item took, and the result.

        Raises:
            EOFError: the worker is gone.
            OSError: it says no more, and is there.
            ValueError: it says what no sound worker says.
        """
        said = receive(self.talk, self._longest)
        try:
            return _SAID.validate_json(said, strict=True)
        except ValueError as error:
            raise ValueError("what the reader said is no result") from error

    def cpu_used_s(self, alone: bool = False) -> float:
        """Processor seconds so far of the worker and what it waited for, and unless ``alone`` what it started."""
        stats = [Path(f"/proc/{self.pid}/stat")] if alone else Path("/proc").glob("[0-9]*/stat")
        ticks = 0
        for stat in stats:
            with suppress(OSError):  # it has just ended
                fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if int(fields[_GROUP]) == self.pid:
                    ticks += sum(map(int, fields[_TIMES]))
        return ticks / _TICKS_PER_S

    def end(self) -> End:
        """Kill the worker and all that it started, unless that was done; how it ended, which may have been before.

        Raises:
            TransientError: the server is gone, and nobody knows.
        """
        if self._end is None:
            self.talk.close()
            with suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)
            status, rss_kib = ENDED.unpack(self._receive(ENDED.size))
            self._life.close()
            self._end = End(os.waitstatus_to_exitcode(status), (rss_kib - self._rss_kib) / 1024)
        return self._end

    def _receive(self, length: int) -> bytes:
        with suppress(OSError):
            if len(said := self._life.recv(length, socket.MSG_WAITALL)) == length:
                return said
        for end in (self.talk, self._life):
            end.close()
        raise TransientError("the process that workers come from has ended: run the step again")


class _Server:
    """The server of this process: started when it is first needed, and again should it have ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: tuple[socket.socket, subprocess.Popen[bytes]] | None = None
        atexit.register(self._stop)
        os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: bytes, handles: list[int]) -> None:
        with self._lock:
            if self._running is None or self._running[1].poll() is not None:
                self._stop()
                self._running = _started()
            with suppress(BrokenPipeError):  # it ends just now; whoever waits for its answer is told
                socket.send_fds(self._running[0], [request], handles)

    def _stop(self) -> None:
        if self._running is not None:
            self._running[0].close()
            self._running[1].wait()

    def _forget(self) -> None:
        """What a fork of this process does with a server that is not its own."""
        self._lock = Lock()
        if self._running is not None:
            self._running[0].close()
            self._running = None


def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A new server, and the socket on which it takes requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with theirs:
        return ours, subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", _SERVER, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=bare_environment() | {"PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )


_server = _Server()


@cache
def _tell(layers: tuple[str, ...]) -> None:
    """Say once what of the confinement this system does not give."""
    if lacking := [layer for layer in LAYERS if layer not in layers]:
        level = logging.INFO if {NAMESPACE, CALLS} & set(layers) else logging.WARNING
        log.log(level, "workers run without %s: this system does not allow it", "; without ".join(lacking))
