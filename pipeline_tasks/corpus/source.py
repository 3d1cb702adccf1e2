"""What a source names: the lines of a list, from a server or a file, or the PDFs below a folder. All of it is hostile.

A line may hold anything, also a secret that was never meant for a list. So what is no address is told by its place in
the source, never by its content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import is_readable_file, may_read, named_path, path_of, where_to_name
from pipeline_tasks.corpus.fetching.list_text import fetch_list
from pipeline_tasks.corpus.urls import canonical_url, joined

_LOCK = ".#"
"""An editor's link to nobody, beside a file that it holds changes of."""


@dataclass(frozen=True)
class Entry:
    """One line or file of a source.

    Attributes:
        place: where in the source, fit to be shown.
        url: canonical address; empty where there is none.
        reason: why there is none.
    """

    place: str
    url: str = ""
    reason: str = ""


def entries(source: str, max_bytes: int, time_limit_s: float) -> Iterator[Entry]:
    """Every line that is neither empty nor a comment, or every PDF at any depth in the order of their paths.

    Args:
        source: http(s) URL or file of a list, or a folder.
        max_bytes: largest list.
        time_limit_s: seconds that a list may take on the network.

    Raises:
        InputError: there is no such source, or this run may not read it.
        TransientError: its server is away, or too slow.
    """
    if source.startswith(("http://", "https://")):
        return _lines(fetch_list(source, max_bytes, time_limit_s), source, source)
    path = _local(source)
    if path.is_dir():
        return _pdfs(path)
    return _lines(_read(path, max_bytes), path.as_uri(), source)


def _local(source: str) -> Path:
    """The file or folder of that name.

    Raises:
        InputError: there is none; to a form, one that it may not read is the same.
    """
    path = named_path(source)
    if path is None:
        wanted = f"name a list of addresses or a folder of PDFs{where_to_name()}"
        raise InputError(f"source={source!r} is no URL, file or folder; {wanted}")
    return path.resolve() if ".." in path.parts else path


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"source={str(path)!r} cannot be read: {error.strerror}; check its rights") from error
    if len(data) > max_bytes:
        raise InputError(f"source={str(path)!r} is larger than max_bytes={max_bytes}; is it a list of addresses?")
    return data


def _lines(data: bytes, base: str, source: str) -> Iterator[Entry]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"source={source!r} is not UTF-8 text (byte {error.start}); name a list with one address a line"
        ) from None
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line and not line.startswith("#"):
            yield _entry(f"line {number}", base, line)


def _entry(place: str, base: str, line: str) -> Entry:
    url = _beside(base, line) or joined(base, line)
    if url is None or (url.startswith("file:") and not base.startswith("file:")):
        return Entry(place, reason="bad_url")
    if url.startswith("file:") and not is_readable_file(path_of(url)):
        return Entry(place, reason="missing_file")
    return Entry(place, url)


def _beside(base: str, name: str) -> str | None:
    """The address of the file of exactly that name beside a list on this machine, as no address is read."""
    if not base.startswith("file:") or "://" in name:
        return None
    url = canonical_url((path_of(base).parent / name).as_uri())
    return url if url and is_readable_file(path_of(url)) else None


def _pdfs(folder: Path) -> Iterator[Entry]:
    for path in sorted(_files(folder)):
        place = _shown(path.relative_to(folder))
        url = canonical_url(path.as_uri())
        yield Entry(place, url) if url and is_readable_file(path) else Entry(place, reason="missing_file")


def _files(folder: Path) -> Iterator[Path]:
    """Files below ``folder`` that are named as PDFs, such links to nothing, and links that may not be followed.

    Linked folders are looked into last, and once, so that what is reached in two ways has the address of its place.

    Raises:
        InputError: a folder cannot be read, or is away; without what is in it, it would be withdrawn.
    """

    def refuse(error: OSError) -> None:
        remedy = "give this process the right to read it, or move it out of the source, which withdraws what is in it"
        message = f"the folder {_shown(error.filename)} cannot be read: {error.strerror}; {remedy}"
        raise InputError(message) from error

    todo, seen = [folder], set[str]()
    for start in todo:
        for place, folders, names in os.walk(start, onerror=refuse):
            if (real := os.path.realpath(place)) in seen:
                folders.clear()
                continue
            seen.add(real)
            folders.sort()  # the order of their visits, which the file system's own would decide
            linked = [path for name in folders if (path := Path(place, name)).is_symlink()]
            todo += filter(may_read, linked)
            yield from (path for path in linked if not may_read(path))
            try:
                yield from filter(_is_told, (Path(place, name) for name in names))
            except OSError as error:  # its names may be read, what they name may not, or its disk does not answer
                error.filename = place
                refuse(error)


def _is_told(path: Path) -> bool:
    """Whether what is no folder is a PDF by its name, also one that is away, or a link that may not be followed.

    Raises:
        InputError: it is a link to nothing that may have been a folder.
    """
    is_pdf = path.suffix.lower() == ".pdf"
    if is_pdf and path.is_file():
        return True
    is_away = path.is_symlink() and not path.exists()
    if is_away and path.name.startswith(_LOCK):
        return False
    if is_away and not is_pdf and may_read(path):
        remedy = "mount what it leads to, or take the link away, which withdraws what was reached by it"
        raise InputError(f"the link {_shown(path)} leads to nothing that is there: {remedy}")
    return is_away and (is_pdf or not may_read(path))


def _shown(path: Path | str) -> str:
    """Fit to be shown, also where it is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
