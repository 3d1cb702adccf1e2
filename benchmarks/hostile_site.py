"""A site in a process of its own: seeded documents, every tenth of them a fault, on eight loopback hosts.

It logs a line for each request (``ask PATH``) and each document that was handed over whole (``sent PATH``).
"""

from __future__ import annotations

import asyncio
import gzip
import random
import struct
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

HOSTS = tuple(f"127.0.0.{i}" for i in range(1, 9))
FAULTS = {
    "http_500": "http_500",
    "hang": "timeout",
    "reset": "bad_response",
    "length": "truncated",
    "metadata": "private_address",
    "loop": "redirect_loop",
    "huge": "too_large",
    "bomb": "too_large",
    "robots": "robots_denied",
    "html": "not_pdf",
}
"""Kind of fault -> the reason that a crawl should find."""
HUGE_BYTES = 200 << 20
_BLOCK = bytes(1 << 16)


def paths(n: int) -> list[str]:
    """The paths of a site of ``n`` addresses, faults spread evenly; a fault's kind is in its path."""
    kinds = list(FAULTS)
    return [f"/{kinds[i // 10 % len(kinds)]}/{i}.pdf" if i % 10 == 5 else f"/ok/{i}.pdf" for i in range(n)]


def urls(n: int, port: int) -> list[str]:
    """Every path on one of the hosts."""
    return [f"http://{HOSTS[i % len(HOSTS)]}:{port}{path}" for i, path in enumerate(paths(n))]


def document(path: str) -> bytes:
    """20 to 200 KiB that no compressor shrinks, the same for a path every time."""
    seeded = random.Random(path)
    return b"%PDF-1.7\n" + seeded.randbytes(seeded.randint(20 << 10, 200 << 10))


@cache
def bomb() -> bytes:
    """200 MB of nothing, as gzip."""
    return gzip.compress(b"%PDF-1.7\n" + bytes(HUGE_BYTES), 9)


def serve(ready: Connection, log: Path) -> None:
    """Serve until killed; sends the port on ``ready``."""
    bomb()
    asyncio.run(_serve(ready, log))


async def _serve(ready: Connection, log: Path) -> None:
    with log.open("w", buffering=1) as lines:

        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await _answer(reader, writer, lines.write):
                    pass
            with suppress(ConnectionError):
                writer.close()

        first = await asyncio.start_server(client, HOSTS[0], 0)
        port = first.sockets[0].getsockname()[1]
        others = [await asyncio.start_server(client, host, port) for host in HOSTS[1:]]
        ready.send(port)
        await asyncio.gather(*(server.serve_forever() for server in (first, *others)))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log) -> bool:  # noqa: ANN001
    """One request and its answer; whether the connection goes on."""
    head = await reader.readuntil(b"\r\n\r\n")
    path = head.split(b" ", 2)[1].decode()
    log(f"ask {path}\n")
    kind = path.split("/")[1]

    def start(status: int, **headers: object) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode())

    if path == "/robots.txt":
        start(200, Content_Length=31)
        writer.write(b"User-agent: *\nDisallow: /robots".ljust(31))
    elif kind == "ok":
        body = document(path)
        start(200, Content_Length=len(body), ETag=f'"{len(body)}"')
        writer.write(body)
        await writer.drain()
        log(f"sent {path}\n")
    elif kind == "http_500":
        start(500, Content_Length=0)
    elif kind == "html":
        start(200, Content_Length=2000, Content_Type="application/pdf")
        writer.write(b"<!doctype html>".ljust(2000))
    elif kind in ("metadata", "loop"):
        target = "http://169.254.169.254/latest/meta-data/" if kind == "metadata" else path
        start(302, Location=target, Content_Length=0)
    elif kind == "bomb":
        start(200, Content_Length=len(bomb()), Content_Encoding="gzip")
        writer.write(bomb())
    elif kind == "length":
        start(200, Content_Length=100_000)
        writer.write(b"%PDF-1.7\n" + bytes(10_000))
        return False
    elif kind == "huge":
        start(200)
        writer.write(b"%PDF-1.7\n")
        for _ in range(HUGE_BYTES // len(_BLOCK)):
            writer.write(_BLOCK)
            await writer.drain()
        return False
    elif kind == "hang":
        await reader.read()
        return False
    elif kind == "reset":
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        return False
    await writer.drain()
    return True
