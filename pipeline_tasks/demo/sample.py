"""The sample corpus as text: Markdown files with a TOML front matter between ``+++`` lines."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipeline_tasks.core.errors import InputError

LAYOUTS = ("plain", "two_column", "tables", "encrypted", "image_only", "truncated", "html")
_KEYS = {"title", "path", "subject", "layout", "also_at", "date"}
_URL_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*\.pdf")
_FRONT_MATTER = re.compile(r"\+\+\+\n(.*?)\n\+\+\+\n(.*)", re.DOTALL)
_UNDATED = date(2024, 1, 1)


@dataclass(frozen=True)
class SampleDocument:
    """One document of the sample corpus, validated.

    Attributes:
        name: Stem of the Markdown file.
        title: Shown at the head of the first page and kept in the PDF's metadata.
        path: URL path on the site, relative, ending in ``.pdf``.
        subject: What it is about, one lower-case word or two (``flood``, ``winter storm``).
        layout: How the text becomes a file, one of ``LAYOUTS``.
        body: Markdown text: paragraphs, ``##`` headings, lists, pipe tables.
        also_at: Second URL path for the very same bytes, or None.
        date: Day of issue; also the PDF's creation date.
    """

    name: str
    title: str
    path: str
    subject: str
    layout: str
    body: str
    also_at: str | None = None
    date: date = _UNDATED

    @property
    def paths(self) -> tuple[str, ...]:
        """Every URL path this document is served under."""
        return (self.path, self.also_at) if self.also_at else (self.path,)


def load_documents(folder: Path) -> list[SampleDocument]:
    """Every ``*.md`` document of a folder, ordered by file name, with unique URL paths.

    Raises:
        InputError: The folder has no document, or one has a front matter that is missing, incomplete or
            wrong, text that the built-in PDF fonts cannot show, or a URL path that another one has; the
            message names the file.
    """
    documents = [parse_document(file) for file in sorted(folder.glob("*.md"))]
    if not documents:
        raise InputError(f"{folder}: no *.md documents there; name the folder of a sample corpus")
    owners: dict[str, str] = {}
    for document in documents:
        for path in document.paths:
            if path in owners:
                first = owners[path]
                raise InputError(f"{document.name}.md: path {path!r} is taken by {first}.md; choose another")
            owners[path] = document.name
    return documents


def parse_document(file: Path) -> SampleDocument:
    """The document in one Markdown file.

    Raises:
        InputError: See ``load_documents``.
    """
    matched = _FRONT_MATTER.fullmatch(_read(file))
    if not matched:
        raise InputError(f"{file}: no front matter; begin with '+++', TOML lines, '+++'")
    try:
        fields = tomllib.loads(matched[1])
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: front matter is not TOML ({error})") from error
    for complaint in _complaints(fields, matched[2]):
        raise InputError(f"{file}: {complaint}")
    return SampleDocument(
        name=file.stem,
        title=fields["title"],
        path=fields["path"],
        subject=fields["subject"],
        layout=fields["layout"],
        body=matched[2].strip(),
        also_at=fields.get("also_at"),
        date=date.fromisoformat(str(fields.get("date", _UNDATED))),
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 ({error}); save it as UTF-8") from error


def _complaints(fields: dict[str, object], body: str) -> Iterator[str]:
    """What is wrong with a document, worst first."""
    for key in ("title", "path", "subject", "layout"):
        if not isinstance(fields.get(key), str) or not str(fields[key]).strip():
            yield f"{key} = {fields.get(key)!r}; give it a text"
    if unknown := sorted(fields.keys() - _KEYS):
        yield f"unknown keys {unknown}; the known ones are {sorted(_KEYS)}"
    if fields["layout"] not in LAYOUTS:
        yield f"layout = {fields['layout']!r}; choose one of {', '.join(LAYOUTS)}"
    for key in ("path", "also_at"):
        if key in fields and not _URL_PATH.fullmatch(str(fields[key])):
            yield f"{key} = {fields[key]!r}; give a relative path, as in floods/plan_2.pdf"
    try:
        date.fromisoformat(str(fields.get("date", _UNDATED)))
    except ValueError:
        yield f"date = {fields['date']!r}; write it as YYYY-MM-DD"
    if not body.strip():
        yield "no text after the front matter"
    if odd := sorted({character for character in f"{fields['title']}{body}" if ord(character) > 0xFF}):
        yield f"characters {odd} are beyond Latin-1, all that the built-in PDF fonts have; replace them"
