"""The interface behind which a PDF library stays, and the two libraries that stand behind it."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.pdf.model import PageText

ENGINES = {"pymupdf": ("pymupdf", "pymupdf-lite"), "pypdfium2": ("pypdfium2",)}
"""Name of an engine -> the distributions that provide it, the first one installed counts."""


class OpenPdf(Protocol):
    """A PDF that could be opened."""

    n_pages: int
    repaired: bool
    facts: dict[str, str]
    """``title``, ``created`` and ``modified`` as the PDF's metadata say."""

    def page(self, index: int) -> PageText:
        """Segments of a page.

        Raises:
            CannotRead: this page cannot be read; others may be.
        """

    def has_image(self, index: int) -> bool:
        """Whether a page shows a picture."""

    def picture(self, index: int, dpi: int) -> bytes:
        """The page in grey as a PGM file, at most 40 million pixels."""

    def close(self) -> None:
        """Free what the library holds."""


class Engine(Protocol):
    """A module that opens PDFs."""

    def open_pdf(self, content: bytes) -> OpenPdf:
        """The PDF in ``content``.

        Raises:
            CannotRead: ``damaged`` or ``encrypted``.
        """


def load_engine(name: str) -> Engine:
    """The engine called ``name``; its library is imported here and not before."""
    return importlib.import_module(f"pipeline_tasks.corpus.pdf.engine_{name}")  # type: ignore[return-value]


def engine_version(name: str) -> str:
    """Distribution and version behind an engine: part of the identity of what it reads.

    Raises:
        InputError: no such engine, or its library is not installed.
    """
    if name not in ENGINES:
        raise InputError(f"engine {name!r} is unknown; choose from {', '.join(ENGINES)}")
    for package in ENGINES[name]:
        try:
            return f"{package.removesuffix('-lite')} {version(package)}"
        except PackageNotFoundError:
            continue
    raise InputError(f"engine {name!r} is not installed: pip install {ENGINES[name][0]}, or choose another engine")
