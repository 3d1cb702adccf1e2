"""Speed and cleanliness of extraction on documents with planted truth, beside plain text of several libraries.

``python benchmarks/extract_text.py [--quick]``: the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.planted_pdfs import Planted, plant
from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited

_SIZES = {"small": [4] * 10, "medium": [8] * 16, "large": [10] * 40}
_SLOW_PAGES = 10


def main() -> None:
    """Print a table for each size, then the figures of the largest."""
    quick = argparse.ArgumentParser()
    quick.add_argument("--quick", action="store_true")
    sizes = ["small"] if quick.parse_args().quick else list(_SIZES)
    summary: dict[str, object] = {}
    for name in sizes:
        documents = [plant(pages, seed) for seed, pages in enumerate(_SIZES[name])]
        summary = measure(name, documents)
    print(json.dumps(summary))


def measure(name: str, documents: list[Planted]) -> dict[str, object]:
    """Times and errors of every reader on ``documents``, printed; ours as a summary."""
    n_pages = sum(d.n_pages for d in documents)
    table = Table("reader", "pages/s", "headers", "table words", "order errors", "broken words", "captions, references",
                  title=f"{name}: {len(documents)} documents, {n_pages} pages")  # fmt: skip
    found: dict[str, tuple[float, dict[str, int]]] = {}
    for label, reader in readers().items():
        slow = "pymupdf4llm" in label
        if slow and name != "small":
            continue
        some = _first(documents, _SLOW_PAGES) if slow else documents
        best, texts = float("inf"), []
        for _ in range(1 if some is not documents else 3):
            start = time.perf_counter()
            texts = [reader(d.content) for d in some]
            best = min(best, time.perf_counter() - start)
        pages = sum(d.n_pages for d in some)
        found[label] = pages / best, errors(some, texts)
    for processes in (1, 2):
        found[f"ours, pymupdf, {processes} process{'es' * (processes > 1)}"] = in_processes(documents, processes)
    for label, (rate, wrong) in found.items():
        table.add_row(label, f"{rate:.0f}", *(str(n) for n in wrong.values()))
    Console(width=120).print(table)
    rate, wrong = found["ours, pymupdf"]
    return {
        "pages": n_pages,
        "pages_per_s": round(rate, 1),
        "ratio_to_plain_blocks": round(rate / found["PyMuPDF blocks, plain"][0], 3),
        "header_leaks": wrong["header_leaks"],
        "table_leaks": wrong["table_leaks"],
        "column_order_errors": wrong["column_order_errors"],
        "broken_words": wrong["broken_words"],
        "note_leaks": wrong["note_leaks"],
        "pypdfium2": {"pages_per_s": round(found["ours, pypdfium2"][0], 1), **found["ours, pypdfium2"][1]},
        "two_processes_to_one": round(found["ours, pymupdf, 2 processes"][0] / found["ours, pymupdf, 1 process"][0], 2),
    }


def readers() -> dict[str, Callable[[bytes], str]]:
    """What is installed here, by name; plain ones first."""
    found = {"PyMuPDF blocks, plain": blocks, "PyMuPDF blocks, sort=True": partial(blocks, sort=True)}
    found["pypdfium2, plain"] = pdfium
    if shutil.which("pdftotext"):
        found["pdftotext"] = pdftotext
    if find_spec("pymupdf4llm"):
        found[f"pymupdf4llm ({_SLOW_PAGES} pages)"] = markdown
    for engine in ("pymupdf", "pypdfium2"):
        found[f"ours, {engine}"] = partial(ours, options=ReadOptions(engine))
        found[f"ours, {engine}"](plant(1, 0).content)
    return found


def ours(content: bytes, options: ReadOptions) -> str:
    """Running text as the step has it."""
    read = read_pdf(content, options)
    return read.text if isinstance(read, PdfText) else ""


def blocks(content: bytes, sort: bool = False) -> str:
    """``get_text("blocks")`` of every page."""
    import pymupdf

    with pymupdf.open(stream=content) as document:
        return "\n\n".join(b[4] for page in document for b in page.get_text("blocks", sort=sort))


def pdfium(content: bytes) -> str:
    """``get_text_range()`` of every page."""
    import pypdfium2

    document = pypdfium2.PdfDocument(content)
    text = "\n\n".join(page.get_textpage().get_text_range() for page in document)
    document.close()
    return text


def pdftotext(content: bytes) -> str:
    """Poppler's program, one process a document."""
    command = [shutil.which("pdftotext") or "pdftotext", "-", "-"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode()


def markdown(content: bytes) -> str:
    """pymupdf4llm's Markdown."""
    import pymupdf
    import pymupdf4llm

    with pymupdf.open(stream=content) as document, redirect_stdout(io.StringIO()):
        return pymupdf4llm.to_markdown(document, show_progress=False)


def in_processes(documents: list[Planted], n: int) -> tuple[float, dict[str, int]]:
    """Ours as the step runs it, in ``n`` worker processes that are already warm."""
    read = partial(read_pdf, options=ReadOptions("pymupdf"))
    list(run_limited(read, [documents[0].content] * n, n, Limits(60)))
    start = time.perf_counter()
    results = list(run_limited(read, [d.content for d in documents], n, Limits(60)))
    rate = sum(d.n_pages for d in documents) / (time.perf_counter() - start)
    return rate, errors(documents, [r.text for r in results])


def errors(documents: list[Planted], texts: list[str]) -> dict[str, int]:
    """How much of what should not be in the texts is, how many lines are missing or out of order, words not joined."""
    wrong = dict.fromkeys(("header_leaks", "table_leaks", "column_order_errors", "broken_words", "note_leaks"), 0)
    for document, text in zip(documents, texts, strict=True):
        words = text.replace("*", " ").replace("|", " ").split()
        counts: dict[str, int] = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        places = {word: i for i, word in reversed(list(enumerate(words)))}
        at = [places.get(word, -1) for word in document.order]
        wrong["header_leaks"] += sum(counts.get(word, 0) for word in set(document.running))
        wrong["table_leaks"] += sum(counts.get(word, 0) for word in document.cells)
        wrong["column_order_errors"] += sum(b <= a or b < 0 for a, b in zip([-1, *at], at, strict=False))
        wrong["broken_words"] += sum(w not in places and f"{w}." not in places for w in document.joined)
        wrong["note_leaks"] += sum(word in places for word in document.notes)
    return wrong


def _first(documents: list[Planted], n_pages: int) -> list[Planted]:
    taken, pages = [], 0
    for document in documents:
        if pages >= n_pages:
            break
        taken.append(document)
        pages += document.n_pages
    return taken


if __name__ == "__main__":
    main()
