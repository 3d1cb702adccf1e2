"""The sample corpus as a small website: PDFs in a folder, a list of their URLs, a server on this machine."""

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.sample import SampleDocument, load_documents

__all__ = ["URL_LIST", "SampleDocument", "build_site", "load_documents", "serve_site"]

URL_LIST = "urls.txt"
_LOG = logging.getLogger(__name__)


def build_site(folder: Path, out_dir: Path) -> list[str]:
    """Bring ``out_dir`` up to date with the sample corpus in ``folder``; return the URL paths it now lists.

    Every document is written below ``out_dir`` under its URL path; a file that already has the same bytes
    is left untouched, modification time included. Nothing is deleted: a PDF that somebody put there is
    listed too. ``urls.txt`` has one URL path a line, sorted, relative: its reader resolves a relative line
    against the URL of the list itself.

    Raises:
        InputError: A document of ``folder`` is malformed.
    """
    for document in load_documents(folder):
        content = render(document)
        for path in document.paths:
            _write_if_changed(out_dir / path, content)
    listed = sorted(quote(file.relative_to(out_dir).as_posix()) for file in out_dir.rglob("*.pdf") if file.is_file())
    _write_if_changed(out_dir / URL_LIST, "".join(f"{path}\n" for path in listed).encode())
    return listed


@contextmanager
def serve_site(out_dir: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve ``out_dir`` over HTTP while the block runs; yield the base URL, which ends in a slash.

    Only regular files below ``out_dir`` are served: no listings, no ``..``, no link that leads outside.
    Port 0 takes a free one; name one where URLs have to stay the same from run to run.

    Raises:
        InputError: ``out_dir`` is not a folder, or the port cannot be had.
    """
    root = out_dir.resolve()
    if not root.is_dir():
        raise InputError(f"{out_dir}: not a folder; build the site first")
    server = listen(host, port, partial(_SiteHandler, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, name="sample-site", kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _SiteHandler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD for regular files below its folder, and 404 for all else."""

    def send_head(self) -> BinaryIO | None:
        """Refuse what is not a regular file of the site; leave the rest to the standard handler."""
        requested = unquote(urlsplit(self.path).path)
        root = Path(self.directory)
        target = Path(self.translate_path(self.path)).resolve()
        if ".." in requested.split("/") or not target.is_relative_to(root) or not target.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def log_message(self, template: str, *values: object) -> None:
        """Log requests at debug level in place of standard error."""
        _LOG.debug(template, *values)


def listen(host: str, port: int, handler: Callable[..., BaseRequestHandler]) -> ThreadingHTTPServer:
    """A server that has its port.

    Raises:
        InputError: the port is taken, or none.
    """
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "is taken by another process" if taken else f"cannot be had ({error})"
        raise InputError(f"port {port} on {host} {reason}; free it or choose another") from error
    except OverflowError as error:
        raise InputError(f"port {port} is not one; choose 0 (any free port) or 1 to 65535") from error


def _write_if_changed(file: Path, content: bytes) -> None:
    """Make ``file`` hold ``content``; it appears whole, or not at all."""
    if file.is_file() and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(file)
