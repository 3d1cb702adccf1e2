"""Small PDFs drawn for a test."""

from __future__ import annotations

import pymupdf

PAGE = pymupdf.paper_rect("letter")
Placed = tuple[tuple[float, float], str]
"""Where a text begins, and the text; its lines are one block."""


def pdf(*pages: list[Placed], title: str = "", **save: object) -> bytes:
    """A PDF of these pages."""
    with pymupdf.open() as document:
        for texts in pages:
            page = document.new_page(width=PAGE.width, height=PAGE.height)
            for at, text in texts:
                page.insert_text(at, text, fontsize=10)
        if title:
            document.set_metadata({"title": title})
        return document.tobytes(**save)


def pictures(n_pages: int) -> bytes:
    """A PDF of grey pictures without any text."""
    with pymupdf.open() as document:
        for _ in range(n_pages):
            page = document.new_page()
            picture = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 50, 50))
            picture.clear_with(128)
            page.insert_image(page.rect, pixmap=picture)
        return document.tobytes()
