"""Sample documents as files: readable PDFs, and on purpose some that a pipeline has trouble with.

Nothing here comes from the clock or from chance: the same document gives the same bytes on every run.
"""

import hashlib
import html
import re
from typing import TYPE_CHECKING

from pipeline_tasks.demo.blocks import parse_blocks
from pipeline_tasks.demo.sample import SampleDocument
from pipeline_tasks.demo.typeset import typeset

if TYPE_CHECKING:
    import pymupdf

USER_LOCK = "ask the county clerk"
_OWNER_LOCK = "records office"
_KEPT_SHARE = 0.4
_SCAN_DPI = 110
_FILE_ID = re.compile(rb"(trailer\s*<<[^\[]*/ID\s*)\[.*?\](?=\s*/Encrypt)", re.DOTALL)


def render(document: SampleDocument) -> bytes:
    """The file served for a document: the same bytes on every run with the same PyMuPDF.

    ``encrypted`` opens only with ``USER_LOCK``; ``image_only`` is scanned pages without a text
    layer; ``truncated`` is the first 40% of a PDF whose page tree lies behind the cut; ``html`` is an error
    page, no PDF.
    """
    if document.layout == "html":
        return _html_page(document)
    pdf = typeset(document)
    if document.layout == "image_only":
        pdf = _scanned(pdf)
    _fix_metadata(pdf, document)
    if document.layout == "encrypted":
        return _save_encrypted(pdf, _identifier(document))
    if document.layout == "truncated":
        whole = _save(pdf, use_objstms=1)
        return whole[: int(len(whole) * _KEPT_SHARE)]
    return _save(pdf)


def _save(pdf: "pymupdf.Document", **options: object) -> bytes:
    return pdf.tobytes(garbage=3, deflate=True, no_new_id=True, **options)


def _save_encrypted(pdf: "pymupdf.Document", identifier: str) -> bytes:
    """The PDF under a password, by RC4, whose keys follow from the passwords and the first half of the /ID.

    AES would add random salts. The second half of the /ID, which MuPDF draws anew at each encryption and
    nothing depends on, is set to the first.
    """
    import pymupdf

    content = pdf.tobytes(
        garbage=3,
        deflate=True,
        encryption=pymupdf.mupdf.PDF_ENCRYPT_RC4_128,
        owner_pw=_OWNER_LOCK,
        user_pw=USER_LOCK,
    )
    fixed, changed = _FILE_ID.subn(rb"\1" + _id_array(identifier).encode(), content)
    if changed != 1:
        raise RuntimeError(f"{changed} file identifiers in an encrypted PDF in place of one")
    return fixed


def _fix_metadata(pdf: "pymupdf.Document", document: SampleDocument) -> None:
    """Set title, dates and file identifier from the document, so that nothing comes from the clock."""
    day = f"D:{document.date:%Y%m%d}000000Z"
    facts = {"title": document.title, "subject": document.subject, "creationDate": day, "modDate": day}
    pdf.set_metadata(facts)
    pdf.xref_set_key(-1, "ID", _id_array(_identifier(document)))


def _identifier(document: SampleDocument) -> str:
    return hashlib.sha256(document.path.encode()).hexdigest()[:32].upper()


def _id_array(identifier: str) -> str:
    return f"[<{identifier}><{identifier}>]"


def _html_page(document: SampleDocument) -> bytes:
    paragraphs = "\n".join(f"<p>{html.escape(block.text)}</p>" for block in parse_blocks(document.body))
    title = html.escape(document.title)
    head = f"<!DOCTYPE html>\n<html><head><title>{title}</title></head>\n"
    return f"{head}<body><h1>{title}</h1>\n{paragraphs}\n</body></html>\n".encode()


def _scanned(pdf: "pymupdf.Document") -> "pymupdf.Document":
    """The same pages as grey pictures."""
    import pymupdf

    scan = pymupdf.open()
    for page in pdf.pages():
        picture = page.get_pixmap(dpi=_SCAN_DPI, colorspace=pymupdf.csGRAY)
        sheet = scan.new_page(width=page.rect.width, height=page.rect.height)
        sheet.insert_image(sheet.rect, stream=picture.tobytes("jpeg", jpg_quality=70))
    return scan
