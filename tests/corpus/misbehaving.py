"""What a reader of hostile files may do, by what the file says; run in worker processes."""

import os
import threading


def obey(order: bytes) -> bytes:
    """Do what the order says: answer, hang, die, raise, or give an answer that cannot be sent."""
    if order == b"hang":
        threading.Event().wait()
    if order == b"exit":
        os._exit(7)
    if order == b"raise":
        raise ValueError("not readable")
    if order == b"unsendable":
        return lambda: None  # type: ignore[return-value]
    return order.upper()
