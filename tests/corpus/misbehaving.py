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

KEPT: list[bytes] = []
BUSY = "while True: pass"


def obey(order: bytes) -> bytes:
    """Do what the first word of the order says; without such a word answer it in capitals."""
    name, _, argument = order.decode().partition(" ")
    return ORDERS[name](argument) if name in ORDERS else order.upper()


def burn(seconds: str) -> bytes:
    """Keep a core busy for so long; in CPU seconds."""
    until = time.process_time() + float(seconds)
    while time.process_time() < until:
        pass
    return b"burnt"


def start(order: str) -> bytes:
    """Start Python with a program, and wait for it. The answer is its output."""
    return subprocess.run([sys.executable, "-c", order], capture_output=True, check=True).stdout


def keep(mib: str) -> bytes:
    """Take memory and never give it back."""
    KEPT.append(bytes(int(mib) << 20))
    return b"kept"


def keep_or_crash(_: str) -> bytes:
    """Crash where something was kept before."""
    if KEPT:
        os._exit(9)
    return keep("1")


def connect(port: str) -> bytes:
    """Talk to this machine."""
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as connection:
        connection.sendall(b"hello")
    return b"connected"


class Trap:
    """Runs a program in the process that unpickles it."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (self.mark,)


def killed_until(path: str) -> bytes:
    """As the system would kill it, until there is a file."""
    if not Path(path).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return b"lived"


ORDERS: dict[str, Callable[[str], object]] = {
    "hang": lambda _: threading.Event().wait(),
    "wait": lambda seconds: threading.Event().wait(float(seconds)) or b"waited",
    "burn": burn,
    "start": start,
    "nothing": lambda _: None,
    "exit": lambda code: os._exit(int(code)),
    "signal": lambda number: os.kill(os.getpid(), int(number)),
    "killed-until": killed_until,
    "raise": lambda _: int("not readable"),
    "hoard": lambda _: bytes(1 << 30),
    "keep": keep,
    "keep-or-crash": keep_or_crash,
    "libraries": lambda _: b"loaded" if "pymupdf" in sys.modules else b"missing",
    "unsendable": lambda _: lambda: None,
    "trap": Trap,
    "environment": lambda _: repr(dict(os.environ)).encode(),
    "read": lambda path: Path(path).read_bytes(),
    "write": lambda path: Path(path).write_bytes(b"written"),
    "connect": connect,
    "unix": lambda path: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path),
    "terminate": lambda pid: os.kill(int(pid), signal.SIGTERM),
    "leave": lambda _: os.setsid(),
}  # type: ignore[dict-item]
