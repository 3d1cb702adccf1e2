"""Pages without text, read by Tesseract where the user asked for it."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.corpus.pdf.engines import OpenPdf
from pipeline_tasks.corpus.pdf.model import CannotRead, PageText, Segment

_DPI = 200
_MIN_CONFIDENCE = 30.0


def tesseract_identity(language: str) -> list[str]:
    """Version of the Tesseract on this machine and sha256 of each of the languages: what decides what it reads.

    Args:
        language: names joined by +.

    Raises:
        InputError: it is not installed, or lacks a language.
    """
    version, listed = (_tesseract_output(option) for option in ("--version", "--list-langs"))
    folder = re.search(r'"(.+)"', listed.split("\n", 1)[0])
    if folder is None:
        raise InputError(f"{version} does not say where its languages are: install Tesseract 5, or set ocr=false")
    files = {name: Path(folder[1], f"{name}.traineddata") for name in language.split("+")}
    if lacking := [name for name, path in files.items() if not path.is_file()]:
        raise InputError(
            f"ocr_language={language!r}: Tesseract has no {lacking[0]!r} in {folder[1]}: install it (apt install "
            f"tesseract-ocr-{lacking[0]}), or name others"
        )
    return [version.split("\n", 1)[0].strip(), *(f"{name} {file_sha256(path)}" for name, path in files.items())]


def _tesseract_output(option: str) -> str:
    program = shutil.which("tesseract")
    if program is None:
        raise InputError(
            "ocr=true needs the program tesseract, here and where Airflow plans the step: install it (apt install "
            "tesseract-ocr; the images of the back-ends docker and kubernetes have none) or set ocr=false"
        )
    found = subprocess.run([program, option], capture_output=True, text=True, check=True)  # noqa: S603
    return found.stdout or found.stderr


OCR_FAILED = "ocr_failed"


def recognise(document: OpenPdf, index: int, page: PageText, language: str) -> PageText:
    """``page`` with the lines that Tesseract sees on its picture; unchanged where it shows no picture.

    Raises:
        CannotRead: Tesseract failed.
    """
    if not document.has_image(index):
        return page
    command = [shutil.which("tesseract") or "tesseract", "-", "-", "-l", language, "--dpi", str(_DPI), "tsv"]
    done = subprocess.run(command, input=document.picture(index, _DPI), capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise CannotRead(OCR_FAILED, done.stderr.decode("utf-8", "replace").strip()[-200:])
    return PageText(page.width, page.height, _lines(done.stdout.decode("utf-8", "replace"), page.width))


def _lines(table: str, width: float) -> list[Segment]:
    lines: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    scale = 72 / _DPI
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["level"] == "1":
            scale = width / max(1.0, float(row["width"]))
        if row["level"] == "5" and float(row["conf"]) >= _MIN_CONFIDENCE and row["text"].strip():
            lines[row["block_num"], row["par_num"], row["line_num"]].append(row)
    segments = []
    for words in lines.values():
        lefts, tops = [float(w["left"]) for w in words], [float(w["top"]) for w in words]
        rights = [left + float(w["width"]) for left, w in zip(lefts, words, strict=True)]
        feet = [top + float(w["height"]) for top, w in zip(tops, words, strict=True)]
        left, top, right, foot = (scale * v for v in (min(lefts), min(tops), max(rights), max(feet)))
        segments.append(Segment(left, top, right, foot, foot - top, False, " ".join(w["text"] for w in words)))
    return segments
