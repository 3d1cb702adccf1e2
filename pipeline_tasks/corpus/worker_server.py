"""The process that workers are forked from: started bare, without network, with the PDF libraries loaded once.

``python -m pipeline_tasks.corpus.worker_server FD``. On the socket FD a parent asks for workers: a pickled function and
its limits, and two sockets. On the first the worker answers items. The second is its life line: the server says the
worker's id, and when the parent lets go of it, or ends in any way, kills the worker with all that it started and says
how it ended. A worker that ended stays a zombie until then, so that its id means nobody else.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from pipeline_tasks.core.confine import confine, leave_network, own_code
from pipeline_tasks.core.confine.libc import libc
from pipeline_tasks.core.settings import bare_environment
from pipeline_tasks.corpus.frames import receive, send
from pipeline_tasks.corpus.pdf.model import Unreadable

BORN = struct.Struct("<q")
ENDED = struct.Struct("<iq")
_LONGEST_REQUEST = 1 << 16
_LIBRARIES = "pipeline_tasks.corpus.pdf.preload"
_SET_PARENT_DEATH_SIGNAL = 1
_SPARE_CPU_S = 2


def main() -> None:
    """Serve until the parent ends; all workers end with it."""
    control = socket.socket(fileno=int(sys.argv[1]))
    layers = leave_network()
    import_module(_LIBRARIES)
    workers: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            for life in [life for life in workers if life.fileno() in ready]:
                selector.unregister(life)
                _end(workers.pop(life), life)
            if control.fileno() not in ready:
                continue
            request, handles, _, _ = socket.recv_fds(control, _LONGEST_REQUEST, 2)
            if not request:
                for life, pid in workers.items():
                    _end(pid, life)
                return
            talk, life = (socket.socket(fileno=handle) for handle in handles)
            with talk:
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    for other in (control, life, *workers):
                        other.close()
                    _work(talk, request, layers)
            workers[life] = pid
            selector.register(life, selectors.EVENT_READ)
            with suppress(OSError):
                life.sendall(BORN.pack(pid))


def _end(pid: int, life: socket.socket) -> None:
    """Kill a worker and what it started, and say how it had ended: its status, and the most memory it held in KiB."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    with suppress(OSError):
        life.sendall(ENDED.pack(status, used.ru_maxrss))
    life.close()


def _work(talk: socket.socket, request: bytes, layers: list[str]) -> NoReturn:
    """Be a worker until the parent has no more items."""
    code = 1
    try:
        libc().prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        sys.dont_write_bytecode = True
        function, cpu_s, memory_mib = pickle.loads(request)  # noqa: S301  (from the parent)
        _limit_memory(memory_mib)
        held = [*layers, *confine(_readable())]
        send(talk, json.dumps((held, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)).encode())
        while True:
            item, before = receive(talk), _cpu_used_s()
            _limit_cpu(before + cpu_s)
            result = _result(function, item, memory_mib)
            send(talk, f"[{_cpu_used_s() - before}, ".encode() + result + b"]")
    except EOFError:
        code = 0
    except BaseException:  # a forked process must not go on in its parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _result(function: Callable[[bytes], Any], item: bytes, memory_mib: int) -> bytes:
    try:
        return json.dumps(function(item), default=vars).encode()
    except MemoryError:
        refused = Unreadable("memory", f"needs more than {memory_mib} MiB")
    except Exception as error:  # whatever a hostile file provokes is its own reject, and the next file is read
        refused = Unreadable("crashed", f"{type(error).__name__}: {error}"[:500])
    return json.dumps(vars(refused)).encode()


def _cpu_used_s() -> float:
    """Processor time of this process and of what it started and waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _limit_cpu(total_s: float) -> None:
    """Let the kernel end this process soon after ``total_s`` of its life, should its parent not come to do it."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(total_s) + _SPARE_CPU_S, resource.RLIM_INFINITY))


def _limit_memory(memory_mib: int) -> None:
    """Let this process grow by ``memory_mib`` from here on."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (memory_mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _readable() -> Iterator[Path]:
    """What a reader of PDFs may open: Python, installed packages, this one, fonts, Tesseract and its languages."""
    yield from (*own_code(), Path("/etc/fonts"))
    bare = bare_environment()
    for name in ("PATH", "LD_LIBRARY_PATH", "TESSDATA_PREFIX"):
        yield from (Path(entry) for entry in bare.get(name, "").split(os.pathsep) if entry)


if __name__ == "__main__":
    main()
