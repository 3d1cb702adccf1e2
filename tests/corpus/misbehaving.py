"""What a reader of hostile files may do, by what the file says; run in worker processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

KEPT: list[bytes] = []


def obey(order: bytes) -> bytes:
    """Do what the order says: answer, hang, die, raise, take memory, keep it, or give an answer that cannot be sent."""
    if order == b"hang":
        threading.Event().wait()
    if order.startswith(b"child "):
        child = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
        Path(order[6:].decode()).write_text(str(child.pid))
        child.wait()
    if order == b"exit":
        os._exit(7)
    if order == b"raise":
        raise ValueError("not readable")
    if order == b"hoard":
        return bytes(1 << 30)
    if order.startswith(b"keep "):
        KEPT.append(bytes(int(order[5:]) << 20))
        return b"kept"
    if order == b"libraries":
        return b"loaded" if "pymupdf" in sys.modules else b"missing"
    if order == b"unsendable":
        return lambda: None  # type: ignore[return-value]
    return order.upper()
