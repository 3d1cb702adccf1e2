"""A folder of PDFs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline_tasks.corpus.search.provider import Hit


class Folder:
    """Every file below a folder that is called .pdf, at any depth, in the order of their paths."""

    name = "folder"

    def search(self, query: str) -> Iterator[Hit]:
        """Files below the folder ``query``."""
        files = (p for p in Path(query).rglob("*") if p.is_file() and p.suffix.lower() == ".pdf")
        yield from (Hit(url) for url in sorted(p.as_uri() for p in files))
