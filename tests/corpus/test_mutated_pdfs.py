"""Damaged and hostile PDFs through worker processes: each ends as a text or a reason, within the limits."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pipeline_tasks
from benchmarks.mutants import mutants
from benchmarks.planted_pdfs import plant
from pipeline_tasks.corpus.pdf.model import PdfText, Unreadable
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.sample import load_documents

REASONS = {"damaged", "encrypted", "empty", "no_text", "too_long", "timeout", "memory", "crashed"}
LIMITS = Limits(cpu_s=2.0, memory_mib=384, patience=300)


def test_a_batch_of_them_ends_with_an_outcome_for_each(engine):
    sample = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"
    originals = [render(document) for document in load_documents(sample)[:6]]
    files = list(mutants(originals, 45, seed=7))
    sound = plant(2, seed=1).content
    batch = [sound, *(content for _, content in files), sound]
    first, *found, last = run_limited(partial(read_pdf, options=ReadOptions(engine)), batch, 2, LIMITS)
    assert isinstance(first, PdfText) and first == last
    assert len(found) == len(files)
    outcomes = Counter(f.reason if isinstance(f, Unreadable) else "text" for f in found)
    assert set(outcomes) <= REASONS | {"text"}
    assert outcomes["text"] > 9 and outcomes["damaged"] > 4 and outcomes["timeout"] < 12
