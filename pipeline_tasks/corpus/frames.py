"""Messages on a stream socket between a parent and its workers: a length of eight bytes, then as many bytes."""

from __future__ import annotations

import socket
import struct

_LENGTH = struct.Struct("<Q")


def send(to: socket.socket, payload: bytes) -> None:
    """Send one message, whole.

    Raises:
        OSError: nobody listens any more, or a timeout of the socket passed.
    """
    to.sendall(_LENGTH.pack(len(payload)))
    to.sendall(payload)


def receive(source: socket.socket, longest: int = 1 << 40) -> bytes:
    """The next message.

    Raises:
        EOFError: the other side ended before the message did.
        OSError: a timeout of the socket passed.
        ValueError: a message of more than ``longest`` bytes was announced.
    """
    (length,) = _LENGTH.unpack(_exactly(source, _LENGTH.size))
    if length > longest:
        raise ValueError(f"a message of {length} bytes, more than {longest}")
    return _exactly(source, length)


def _exactly(source: socket.socket, length: int) -> bytes:
    chunks = []
    while length:
        try:
            chunk = source.recv(min(length, 1 << 20))
        except ConnectionResetError as error:
            raise EOFError from error
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)
