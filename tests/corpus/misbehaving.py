"""What a reader of hostile files may do, by what the file says; run in worker processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pipeline_tasks.corpus.frames import send

KEPT: list[bytes] = []
BUSY = "while True: pass"


def obey(order: bytes) -> object:
    """Do what the first word of the order says; without such a word answer it in capitals."""
    name, _, argument = order.decode().partition(" ")
    return ORDERS[name](argument) if name in ORDERS else order.decode().upper()


def burn(seconds: str) -> str:
    """Keep a core busy for so long; in CPU seconds."""
    until = time.process_time() + float(seconds)
    while time.process_time() < until:
        pass
    return "burnt"


def start(order: str) -> str:
    """Start Python with a program, and wait for it. The answer is its output."""
    return subprocess.run([sys.executable, "-c", order], capture_output=True, check=True, text=True).stdout


def keep(mib: str) -> str:
    """Take memory and never give it back."""
    KEPT.append(bytes(int(mib) << 20))
    return "kept"


def keep_or_crash(_: str) -> str:
    """Crash where something was kept before."""
    if KEPT:
        os._exit(9)
    return keep("1")


def connect(port: str) -> str:
    """Talk to this machine."""
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as connection:
        connection.sendall(b"hello")
    return "connected"


def say(message: str) -> None:
    """Answer the parent with words of one's own, as whoever has taken over the process can."""
    frame = sys._getframe()
    while "talk" not in frame.f_locals:
        frame = frame.f_back
    send(frame.f_locals["talk"], message.encode("latin-1"))
    threading.Event().wait()


def killed_until(path: str) -> str:
    """As the system would kill it, until there is a file."""
    if not Path(path).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"


def killed_at(mib: str) -> None:
    """As the system would kill it, with so much memory in use."""
    KEPT.append(b"x" * (int(mib) << 20))
    os.kill(os.getpid(), signal.SIGKILL)


ORDERS: dict[str, Callable[[str], object]] = {
    "hang": lambda _: threading.Event().wait(),
    "wait": lambda seconds: threading.Event().wait(float(seconds)) or "waited",
    "burn": burn,
    "start": start,
    "nothing": lambda _: None,
    "exit": lambda code: os._exit(int(code)),
    "signal": lambda number: os.kill(os.getpid(), int(number)),
    "killed-at": killed_at,
    "killed-until": killed_until,
    "raise": lambda _: int("not readable"),
    "hoard": lambda _: bytes(1 << 30),
    "keep": keep,
    "keep-or-crash": keep_or_crash,
    "libraries": lambda _: "loaded" if "pymupdf" in sys.modules else "missing",
    "unsendable": lambda _: lambda: None,
    "say": say,
    "environment": lambda _: repr(dict(os.environ)),
    "read": lambda path: Path(path).read_text(),
    "write": lambda path: Path(path).write_bytes(b"written"),
    "connect": connect,
    "unix": lambda path: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path),
    "terminate": lambda pid: os.kill(int(pid), signal.SIGTERM),
    "leave": lambda _: os.setsid(),
}  # type: ignore[dict-item]
