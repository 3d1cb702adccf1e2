"""One PDF's bytes to running text: every page once through an engine, then layout, then cleaning."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pipeline_tasks.corpus.pdf.asides import kinds_of
from pipeline_tasks.corpus.pdf.cleaning import SOFT_HYPHEN, Hyphens, clean
from pipeline_tasks.corpus.pdf.columns import reading_order
from pipeline_tasks.corpus.pdf.engines import OpenPdf, load_engine
from pipeline_tasks.corpus.pdf.facts import metadata_date, printed_date, title_of
from pipeline_tasks.corpus.pdf.flow import run_together
from pipeline_tasks.corpus.pdf.language import language_of
from pipeline_tasks.corpus.pdf.model import Aside, CannotRead, PageText, Paragraph, PdfText, Unreadable
from pipeline_tasks.corpus.pdf.ocr import OCR_FAILED, recognise
from pipeline_tasks.corpus.pdf.paragraphs import join_marks, to_paragraphs
from pipeline_tasks.corpus.pdf.running import take_running_lines
from pipeline_tasks.corpus.pdf.tables import take_tables
from pipeline_tasks.domains.quotes import UNSPACED

_WORD = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+")
_OF_A_PAGE = ("damaged", OCR_FAILED)
"""Why one page may not be read, and others are."""
_DATED_PAGES, _DATED_CHARS = 2, 3000


@dataclass(frozen=True)
class ReadOptions:
    """How a PDF is read.

    Attributes:
        engine: which library opens it.
        ocr_language: Tesseract's name of the language in which pages without text are recognised; empty for never.
        max_chars: a longer text is no document; 4,000 dense pages have some 10 million, and `chunk_passages` fits them.
    """

    engine: str = "pymupdf"
    ocr_language: str = ""
    max_chars: int = 10_000_000


def read_pdf(content: bytes, options: ReadOptions = ReadOptions()) -> PdfText | Unreadable:  # noqa: B008
    """Text of the PDF in ``content``; hostile input gives a reason, never an exception of ours.

    Reasons: ``damaged``, ``encrypted``, ``empty`` (nothing on any page), ``no_text`` (pictures only), ``ocr_failed``
    (Tesseract, where no page has a text), ``too_long``, ``memory``.
    """
    try:
        document = load_engine(options.engine).open_pdf(content)
        try:
            return _read(document, content, options)
        finally:
            document.close()
    except CannotRead as refused:
        return Unreadable(refused.reason, refused.detail)
    except MemoryError:
        return Unreadable("memory", "no memory left within the limit")


def _read(document: OpenPdf, content: bytes, options: ReadOptions) -> PdfText:
    if document.n_pages == 0:
        raise CannotRead("damaged", "no pages can be read")
    pages, unreadable, n_off_page = _pages(document, options)
    if len(unreadable) == document.n_pages:
        raise unreadable[0]
    if not any(page.segments for page in pages):
        if document.repaired or b"startxref" not in content:
            raise CannotRead("damaged", "repaired, but nothing is left to read")
        if unseen := next((refused for refused in unreadable if refused.reason != "damaged"), None):
            raise unseen
        seen = any(document.has_image(i) for i in range(document.n_pages))
        off_page = f", {n_off_page} pieces of text off the page" if n_off_page else ""
        raise CannotRead("no_text" if seen else "empty", f"{document.n_pages} pages without text{off_page}")
    found = assemble(pages, document.facts)
    return replace(found, n_unreadable_pages=len(unreadable), n_off_page=n_off_page)


def _pages(document: OpenPdf, options: ReadOptions) -> tuple[list[PageText], list[CannotRead], int]:
    pages, unreadable, n_chars, n_off_page = [], list[CannotRead](), 0, 0
    for index in range(document.n_pages):
        try:
            page = document.page(index)
            if options.ocr_language and not page.segments:
                page = recognise(document, index, page, options.ocr_language)
        except CannotRead as refused:
            if refused.reason not in _OF_A_PAGE:
                raise
            unreadable.append(CannotRead(refused.reason, f"page {index + 1}: {refused.detail}"))
            page = PageText(0.0, 0.0, [])
        n_read, page = len(page.segments), _on_page(page)
        n_off_page += n_read - len(page.segments)
        n_chars += sum(len(s.text) for s in page.segments)
        if n_chars > options.max_chars:
            raise CannotRead("too_long", f"more than {options.max_chars} characters")
        pages.append(page)
    return pages, unreadable, n_off_page


def _on_page(page: PageText) -> PageText:
    """The page without what lies far off it or has no sane size; nobody can see that."""
    width, height = page.width, page.height
    kept = [
        s
        for s in page.segments
        if -width < s.x0 <= s.x1 < 2 * width and -height < s.y0 < s.y1 < 2 * height and 0 < s.size < 4 * height
    ]
    return page if len(kept) == len(page.segments) else PageText(width, height, kept)


def assemble(pages: list[PageText], facts: dict[str, str]) -> PdfText:
    """Running text, asides and facts from the segments of all pages."""
    bare, asides = take_running_lines([replace(page, segments=join_marks(page.segments)) for page in pages])
    paragraphs: list[Paragraph] = []
    for number, page in enumerate(bare, start=1):
        segments, tables = take_tables(page.segments)
        columns, grids = reading_order(segments)
        asides += [Aside("table", number, clean(text)) for text in (*tables, *grids)]
        paragraphs += to_paragraphs(columns, number)
    paragraphs = [
        replace(p, text=text) for p in paragraphs if (text := clean(p.text).strip()).strip(f"{SOFT_HYPHEN}\n")
    ]
    kinds = kinds_of(paragraphs, [page.height for page in pages])
    hyphens = Hyphens(p.text for p in paragraphs)
    running = [p for p, kind in zip(paragraphs, kinds, strict=True) if kind == "text"]
    asides += [
        Aside(kind, p.page, hyphens.join(p.text)) for p, kind in zip(paragraphs, kinds, strict=True) if kind != "text"
    ]
    text, starts = run_together(running, len(pages), hyphens)
    created = metadata_date(facts["created"])
    front = starts[_DATED_PAGES] if len(starts) > _DATED_PAGES else len(text)
    return PdfText(
        title=title_of(facts["title"], paragraphs),
        text=text,
        page_starts=starts,
        n_pages=len(pages),
        n_words=sum(1 for _ in _WORD.finditer(text)),
        language=language_of(text),
        date=printed_date(text[: min(front, _DATED_CHARS)]) or created,
        created=created,
        modified=metadata_date(facts["modified"]),
        asides=_joined(sorted(asides, key=lambda a: a.page)),
    )


def _joined(asides: list[Aside]) -> list[Aside]:
    """Asides in order without soft hyphens; entries of one page's references are one of them."""
    joined: list[Aside] = []
    for aside in (replace(aside, text=aside.text.replace(SOFT_HYPHEN, "")) for aside in asides):
        last = joined[-1] if joined else None
        if last and aside.kind == last.kind == "references" and aside.page == last.page:
            joined[-1] = Aside(last.kind, last.page, f"{last.text}\n{aside.text}")
        else:
            joined.append(aside)
    return joined
