"""Two thousand PDFs made to break a reader: does the batch survive, within its limits of processor time and memory?

``python benchmarks/mutated_pdfs.py [--quick] [--files N] [--seed N] [--engine pypdfium2] [--pdfs FOLDER]``:
the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

import pipeline_tasks
from benchmarks.mutants import mutants
from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.sample import load_documents

_SAMPLE = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Peak resident memory, in MiB, of this process and of any below it, looked at 50 times a second."""
    peak = {"worker_mib": 0.0, "own_mib": 0.0}
    stop = threading.Event()

    def look() -> None:
        me = psutil.Process()
        while not stop.wait(0.02):
            peak["own_mib"] = max(peak["own_mib"], me.memory_info().rss / 2**20)
            for child in me.children(recursive=True):
                with suppress(psutil.Error):
                    peak["worker_mib"] = max(peak["worker_mib"], child.memory_info().rss / 2**20)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def main() -> None:
    """Print what became of each kind of damage, then the summary."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", default="pymupdf")
    parser.add_argument("--pdfs", type=Path, help="folder of PDFs to damage besides the sample's")
    parser.add_argument("--cpu-limit-s", type=float, default=2.0)
    parser.add_argument("--memory-limit-mib", type=int, default=512)
    options = parser.parse_args()
    originals = [render(d) for d in load_documents(_SAMPLE) if d.layout not in ("html", "encrypted")]
    if options.pdfs:
        originals += [p.read_bytes() for p in sorted(options.pdfs.rglob("*.pdf")) if p.stat().st_size < 1 << 20]
    files = list(mutants(originals, 200 if options.quick else options.files, options.seed))
    limits = Limits(options.cpu_limit_s, options.memory_limit_mib)
    read = partial(read_pdf, options=ReadOptions(options.engine))
    outcomes: dict[str, Counter[str]] = {}
    slowest, started = 0.0, time.monotonic()
    last = started
    with watched() as peak:
        for (kind, _), found in zip(files, run_limited(read, [f for _, f in files], 2, limits), strict=True):
            now = time.monotonic()
            slowest, last = max(slowest, now - last), now
            reason = "text" if isinstance(found, PdfText) else found.reason
            outcomes.setdefault(kind, Counter())[reason] += 1
    report(outcomes, {
        "engine": options.engine, "files": len(files), "accounted": sum(c.total() for c in outcomes.values()),
        "seconds": round(time.monotonic() - started, 1), "longest_wait_s": round(slowest, 2),
        "cpu_limit_s": limits.cpu_s, "memory_limit_mib": limits.memory_mib,
        "peak_worker_mib": round(peak["worker_mib"]), "peak_own_mib": round(peak["own_mib"]),
        "outcomes": dict(sum(outcomes.values(), Counter())),
    })  # fmt: skip


def report(outcomes: dict[str, Counter[str]], summary: dict[str, object]) -> None:
    """A row for each kind of damage, a column for each outcome, and the summary as JSON."""
    reasons = sorted({reason for counts in outcomes.values() for reason in counts})
    table = Table("damage", *reasons)
    for kind, counts in sorted(outcomes.items()):
        table.add_row(kind, *(str(counts[reason] or "") for reason in reasons))
    Console(width=110).print(table)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
