"""Texts to chunk: those at hand, and where they are too few, made ones."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from new_texts import new_texts

SAMPLE = Path(__file__).parents[1] / "pipeline_tasks" / "domains" / "disaster" / "sample"
DATA = Path(__file__).parents[2] / "shared" / "data"


def sample_texts() -> dict[str, list[str]]:
    """Sections of each document of the sample corpus, headings left out."""
    found = {}
    for file in sorted(SAMPLE.glob("*.md")):
        sections = re.split(r"^##.*\n", file.read_text("utf-8").split("+++", 2)[2], flags=re.M)
        found[file.stem] = [text.strip() for text in sections if len(text.split()) >= 30]
    return found


def pdf_texts(folder: Path, seed: random.Random) -> dict[str, list[str]]:
    """Runs of paragraphs, of 50 to 350 words, of each PDF."""
    import pymupdf

    found: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.pdf")):
        with pymupdf.open(file) as document:
            blocks = [" ".join(block[4].split()) for page in document for block in page.get_text("blocks")]
        runs, room = [], 0
        for paragraph in (block for block in blocks if len(block.split()) >= 15):
            if room <= 0:
                runs.append([])
                room = seed.randint(50, 350)
            runs[-1].append(paragraph)
            room -= len(paragraph.split())
        found[file.stem] = ["\n\n".join(run) for run in runs]
    return found


def line_texts(folder: Path) -> dict[str, list[str]]:
    """Texts of retrieval sets, a document a set."""
    files = sorted(folder.glob("*/corpus.jsonl"))
    return {f.parent.name: [json.loads(line)["text"] for line in f.open(encoding="utf-8")] for f in files}


@dataclass(frozen=True)
class Documents:
    """Documents of about 50 kB, their megabytes in all, and how many of these are made."""

    texts: list[str]
    size_mb: float
    made_mb: float

    @classmethod
    def of(cls, texts: dict[str, list[str]], size_mb: float, seed: int) -> Documents:
        """``size_mb`` megabytes of ``texts``, none twice, and of texts made of their words where those end."""
        given = list(dict.fromkeys(text for sections in texts.values() for text in sections))
        documents, current, total, made = [], [], 0, 0
        for place, text in enumerate(chain(given, new_texts(given, seed))):
            if total >= size_mb * 1e6:
                break
            current.append(text)
            size = len(text.encode()) + len("\n\n")
            total += size
            made += size if place >= len(given) else 0
            if sum(map(len, current)) > 50_000:
                documents.append("\n\n".join(current))
                current = []
        return cls([*documents, "\n\n".join(current)] if current else documents, total / 1e6, made / 1e6)
