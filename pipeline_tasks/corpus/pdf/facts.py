"""Title and dates of a document: what its metadata says, and where that says nothing, what is printed on it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from pipeline_tasks.corpus.pdf.cleaning import SOFT_HYPHEN, clean, whole_words
from pipeline_tasks.corpus.pdf.model import Paragraph

_TITLE_CHARS, _FIRST_LINE_CHARS = 300, 120
_NO_TITLE = re.compile(
    r"\s*(?:microsoft \w+ ?-.*|(?:untitled|document|presentation|powerpoint presentation|slide|title|blank|page)\s*\d*"
    r"|.*\.(?:docx?|pdf|pptx?|xlsx?|indd|qxd|pmd|wpd|rtf|txt|tex|dvi|ai|eps|html?)|[\W\d_]*)\s*",
    re.IGNORECASE | re.DOTALL,
)
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"  # noqa: E501
_YEAR = r"((?:19|20)\d\d)"
_PRINTED = re.compile(
    rf"\b(?:{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+{_YEAR}|(\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH},?\s+{_YEAR}"
    rf"|{_YEAR}-(\d\d)-(\d\d)|(\d{{1,2}})/(\d{{1,2}})/{_YEAR}|{_MONTH},?\s+{_YEAR})\b",
    re.IGNORECASE,
)
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?")


def title_of(metadata: str, paragraphs: list[Paragraph]) -> str:
    """The metadata's title unless it is a file name or a program's default; else the first page's largest text.

    Where no text on the first page stands out by size, its first line is taken.
    """
    given = " ".join(clean(metadata).replace(SOFT_HYPHEN, "").split())
    if given and not _NO_TITLE.fullmatch(given):
        return given[:_TITLE_CHARS]
    first = [
        replace(p, text=whole_words(p.text).removesuffix(SOFT_HYPHEN))
        for p in paragraphs
        if p.page == paragraphs[0].page
    ]
    if not first:
        return ""
    usual = sorted(p.size for p in paragraphs for _ in range(1 + len(p.text) // 40))
    body = usual[len(usual) // 2]
    wordy = [p for p in first if sum(c.isalpha() for c in p.text) > 3] or first
    largest = max(p.size for p in wordy)
    lines = [p.text for p in wordy if p.size > 0.95 * largest] if largest > 1.15 * body else []
    title = " ".join(" ".join(lines[:2]).split())
    if title and len(title) <= _TITLE_CHARS:
        return title
    return " ".join(wordy[0].text.split())[:_FIRST_LINE_CHARS]


def metadata_date(value: str) -> str:
    """A date of PDF metadata (``D:20240131…``) as ISO 8601; empty where it is none."""
    match = _PDF_DATE.match(value.strip())
    return _iso(*match.groups()) if match else ""


def printed_date(text: str) -> str:
    """The first date with a year in ``text`` as YYYY-MM-DD or YYYY-MM; empty where there is none."""
    for m in _PRINTED.finditer(text):
        g = m.groups()
        found = (
            (g[2], g[0], g[1]) if g[0] else (g[5], g[4], g[3]) if g[4] else g[6:9] if g[6] else
            (g[11], g[9], g[10]) if g[9] else (g[13], g[12], None)
        )  # fmt: skip
        if iso := _iso(*found):
            return iso
    return ""


def _iso(year: str | None, month: str | None, day: str | None) -> str:
    if month and month.isalpha():
        month = str(next(i for i, name in enumerate(_MONTHS, start=1) if name.startswith(month[:3].lower())))
    try:
        if not 1900 <= int(year or 0) <= 2100:
            return ""
        if not month:
            return str(year)
        checked = date(int(year or 0), int(month), int(day or 1))
    except ValueError:
        return ""
    return checked.isoformat() if day else f"{checked:%Y-%m}"
