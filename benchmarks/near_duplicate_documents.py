"""Near-duplicate documents: ours beside datasketch and rensa, on planted documents whose every pair is known.

``python benchmarks/near_duplicate_documents.py [--quick]`` (``make bench-install`` first): the last line is one JSON
object. Every method starts from the same Python strings, in a process of its own, compiled and imported before the
clock starts; the best of its repeats counts, and of wall and processor time the smaller.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.near_duplicate_peers import THRESHOLD, datasketch_bulk, datasketch_update, rensa  # noqa: E402
from benchmarks.planted_documents import SHINGLE, Planted, plant  # noqa: E402

Method = Callable[[list[str]], Iterable[int]]


def ours(texts: list[str]) -> Iterable[int]:
    """Documents that repeat an earlier one: sketch in batches, cluster once."""
    from pipeline_tasks.texts.clusters import cluster, shared_buckets
    from pipeline_tasks.texts.minhash import band_keys, band_rows, sketch_texts

    made = [sketch_texts(pa.array(texts[i : i + 1024]), SHINGLE) for i in range(0, len(texts), 1024)]
    rows = band_rows(THRESHOLD, 128)
    buckets = shared_buckets(np.concatenate([band_keys(m.signatures, rows) for m in made], axis=1))
    offsets = np.append(0, np.cumsum(np.concatenate([np.diff(m.offsets) for m in made])))
    shingles = np.concatenate([m.shingles for m in made])
    originals, _, _ = cluster(np.ascontiguousarray(buckets.T), shingles, offsets, THRESHOLD)
    return np.flatnonzero(originals != np.arange(len(texts))).tolist()


def our_steps(texts: list[str]) -> Iterable[int]:
    """The three steps of the pipeline on a store: Parquet in, Parquet out, checksums, manifests."""
    return _through_steps(our_steps, texts, known=0)


def our_refresh(texts: list[str]) -> Iterable[int]:
    """The three steps again, when the last hundredth of the documents is new."""
    return _through_steps(our_refresh, texts, known=len(texts) - len(texts) // 100)


def _through_steps(method: Method, texts: list[str], known: int) -> Iterable[int]:
    """Only the last run of the steps is timed; its clock goes to ``method.timed``."""
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.plan import plan
    from pipeline_tasks.core.registry import get_step
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import Version
    from pipeline_tasks.datasets import DOCUMENTS
    from tests.stores import put

    def run(parts: list[list[dict]]) -> Version:
        put(store, DOCUMENTS, *parts, dataset="texts")
        clock = Clock()
        for name in ("sketch_documents", "cluster_documents", "near_duplicate_documents"):
            made = run_job(store, plan(store, get_step(name), {}, {})).ref
        method.timed = clock.read()
        return Version.open(store, made)

    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        rows = [{"doc_id": str(i), "url": f"http://example.org/{i}", "text": text} for i, text in enumerate(texts)]
        old, new = ([some[i : i + 1000] for i in range(0, len(some), 1000)] for some in (rows[:known], rows[known:]))
        if old:
            run(old)
        kept = run(old + new).table(["doc_id"])["doc_id"].to_pylist()
        return set(range(len(texts))) - set(map(int, kept))


class Clock:
    """Wall and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Seconds on the wall and of all threads of this process."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


@dataclass(frozen=True)
class Result:
    """What one method made of one size."""

    wall_s: float
    cpu_s: float
    found: frozenset[int]
    peak_mib: float
    added_mib: float

    @property
    def seconds(self) -> float:
        """The smaller of both times: neighbours on the machine lengthen the one, many threads the other."""
        return min(self.wall_s, self.cpu_s)


def measure(method: Method, path: Path, repeats: int) -> Result:
    """Run ``method`` on the texts in ``path``; runs in a process of its own."""
    texts = pq.read_table(path)["text"].to_pylist()
    list(method(texts[:100]))
    before, times, found = _peak_mib(), [], frozenset[int]()
    for _ in range(repeats):
        clock = Clock()
        found = frozenset(method(texts))
        times.append(getattr(method, "timed", clock.read()))
    wall_s, cpu_s = (min(some) for some in zip(*times, strict=True))
    return Result(wall_s, cpu_s, found, _peak_mib(), _peak_mib() - before)


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def quality(found: frozenset[int], planted: Planted) -> tuple[float, float]:
    """Precision and recall of the documents removed, against exact Jaccard of all pairs."""
    right = len(found & planted.truth.keys())
    return right / max(1, len(found)), right / max(1, len(planted.truth))


def main() -> None:
    """Print a table, then the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="500 and 2,000 documents")
    quick = parser.parse_args().quick
    sizes = (500, 2_000) if quick else (2_000, 10_000, 50_000)
    table = Table("documents", "method", "wall s", "CPU s", "docs/s", "precision", "recall", "peak MiB", "of it added")
    results: dict[tuple[int, str], Result] = {}
    scores: dict[int, tuple[float, float]] = {}
    for size in sizes:
        planted = plant(size, THRESHOLD)
        methods = [(ours, 3), (rensa, 3), (datasketch_bulk, 1), (our_steps, 1), (our_refresh, 1)]
        methods += [(datasketch_update, 1)] if size == sizes[0] else []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "texts.parquet"
            pq.write_table(pa.table({"text": planted.texts}), path)
            for method, repeats in methods:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                    result = process.submit(measure, method, path, repeats).result()
                results[size, method.__name__] = result
                precision, recall = quality(result.found, planted)
                if method is ours:
                    scores[size] = precision, recall
                figures = (
                    f"{result.wall_s:.2f} {result.cpu_s:.2f} {size / result.seconds:,.0f} {precision:.3f} {recall:.3f}"
                )
                memory = f"{result.peak_mib:.0f} {result.added_mib:.0f}"
                table.add_row(f"{size:,}", method.__name__, *figures.split(), *memory.split())
        table.add_section()
    Console(width=110).print(table)
    print(json.dumps(summary(results, scores, sizes)))


def summary(
    results: dict[tuple[int, str], Result], scores: dict[int, tuple[float, float]], sizes: tuple[int, ...]
) -> dict[str, float]:
    """The worst quality and ratio of all sizes; ``growth`` of our time between the two largest."""
    rates = {key: key[0] / result.seconds for key, result in results.items()}
    slowest = min(rates[size, "ours"] for size in sizes)
    large = results[sizes[-1], "ours"]
    return {
        "precision": round(min(precision for precision, _ in scores.values()), 4),
        "recall": round(min(recall for _, recall in scores.values()), 4),
        "ratio_to_datasketch_update": round(slowest / rates[sizes[0], "datasketch_update"], 1),
        "ratio_to_rensa": round(min(rates[size, "ours"] / rates[size, "rensa"] for size in sizes), 2),
        "growth_10k_50k": round(large.seconds / results[sizes[-2], "ours"].seconds, 2),
        "peak_mib": round(large.peak_mib),
        "sizes": list(sizes),
    }


if __name__ == "__main__":
    main()
