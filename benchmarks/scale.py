"""The corpus chain at scale, from chunks with given vectors to MTT-alpha, with removals and three refreshes.

``python benchmarks/scale.py --passages N [--queries N] [--quick]``: the last line is one JSON object. All data is made
from a seed. A version of the corpus is de-duplicated, ranked, agreed upon and mined; each refresh adds a hundredth of
the passages and withdraws as many. The chain runs twice, over a tenth of the passages and over all of them.

Each step runs in a process of its own with an empty cache, over a bucket on this machine.

- ``peak_mib_any_process``: of the steps and of the folds.
- ``read_amplification``: bytes that came from the bucket over what the columns hold that were asked for, each counted
  once a step.
- ``fold_seconds_10th_version``: folding the lineage when the tenth version was made.
- ``growth_100k_1m``: seconds of all steps but ``cluster_passages``, which compares all pairs, over those at a tenth of
  the passages, in the first version; named for the sizes of ``--passages 1000000``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import names_of, put_parts, texts_of, write_block  # noqa: E402
from benchmarks.vectors import unit_vectors  # noqa: E402

MODEL, ALPHA, REFRESHES, WORDS, SHARE, REPEATS = "all-minilm-l6-v2", 0.75, 3, 90, 100, 50
ALL_PAIRS = "cluster_passages"
CHAIN: dict[str, dict[str, Any]] = {
    "cluster_passages": {"model": MODEL},
    "near_duplicate_passages": {},
    "rank_passages": {"model": MODEL},
    "mutual_agreement": {"models": (MODEL,), "strategy": "none"},
    "mine_negatives": {"alpha": ALPHA, "models": (MODEL,)},
}


@dataclass
class Corpus:
    """What is given: chunks, pairs and the vectors of both, in parts that a refresh adds to.

    Attributes:
        store: a bucket.
        part: passages of a part.
        parts: by dataset.
        ids: of the passages of each part.
        removals: of passages, from all datasets.
        gone: passages withdrawn.
    """

    store: Any
    part: int
    parts: dict[str, list] = field(default_factory=dict)
    ids: list[list[str]] = field(default_factory=list)
    removals: list = field(default_factory=list)
    gone: int = 0

    def add(self, n_passages: int, n_queries: int) -> None:
        """More passages, of which every fiftieth has the vector of the one before, and queries of others of them."""
        for at in range(0, n_passages, self.part):
            n, seed = min(self.part, n_passages - at), len(self.ids) + 10
            vectors, ids = unit_vectors(n, seed, 1000), names_of(n, seed)
            vectors[REPEATS - 1 :: REPEATS] = vectors[REPEATS - 2 :: REPEATS][: len(vectors[REPEATS - 1 :: REPEATS])]
            self.ids.append(ids)
            self._write("chunks", {"passage_id": ids, "text": texts_of(ids, WORDS), "split": "train"})
            self._write("embeddings", {"passage_id": ids, "embedding": vectors})
            some = np.arange(0, n, 2)[: -(-n_queries * n // n_passages)]
            self._ask([ids[i] for i in some], vectors[some], seed)

    def _ask(self, sources: list[str], near: np.ndarray, seed: int) -> None:
        n = len(sources)
        queries, own = names_of(n, seed + 1_000_000), names_of(n, seed + 2_000_000)
        vectors = [
            near + share * unit_vectors(n, seed + place) for place, share in ((3_000_000, 0.9), (4_000_000, 0.5))
        ]
        asked, positive = (found / np.linalg.norm(found, axis=1, keepdims=True) for found in vectors)
        shared = {"query_id": queries, "intent": "qa", "positive_id": own, "passage_id": sources, "origin": "dm"}
        texts = {"query": queries, "positive": texts_of(own, WORDS), "split": "train"}
        self._write("pairs", shared | texts)
        self._write("query_embeddings", shared | {"query_embedding": asked, "positive_embedding": positive})

    def _write(self, dataset: str, columns: dict[str, Any]) -> None:
        from pipeline_tasks.core.vectors import lists

        block = {name: lists(v) if isinstance(v, np.ndarray) else v for name, v in columns.items()}
        self.parts.setdefault(dataset, []).append(write_block(self.store, _schema(dataset), block))

    def withdraw(self, n: int) -> None:
        """Remove ``n`` passages that no query was written from, a few of every part."""
        import pyarrow as pa

        from pipeline_tasks.core.manifest import Removal
        from pipeline_tasks.core.parts import write_rows
        from pipeline_tasks.core.versions import REMOVED

        each = -(-n // len(self.ids))
        first = 1 + 2 * each * len(self.removals)
        keys = [name for ids in self.ids for name in ids[first : first + 2 * each : 2]][:n]
        part = write_rows(self.store, pa.table({"key": sorted(keys)}, schema=REMOVED))
        self.removals.append(Removal(part=part, column="passage_id", first=0, last=len(self.ids)))
        self.gone += len(keys)

    def put(self) -> None:
        """A version of each dataset."""
        for dataset, name in (("pairs", "mtp"), ("query_embeddings", f"query_embeddings/{MODEL}")):
            put_parts(self.store, _schema(dataset), name, self.parts[dataset])
        put_parts(self.store, _schema("chunks"), "chunks", self.parts["chunks"], self.removals, self.gone)
        self.embed(self.removals, self.gone)

    def embed(self, removals: list, gone: int) -> None:
        """Vectors of the chunks that are left."""
        put_parts(self.store, _schema("embeddings"), f"embeddings/{MODEL}", self.parts["embeddings"], removals, gone)


def _schema(dataset: str) -> Any:
    from pipeline_tasks import datasets

    names = {"chunks": "PASSAGES", "embeddings": "PASSAGE_EMBEDDINGS", "query_embeddings": "PAIR_EMBEDDINGS"}
    return getattr(datasets, names.get(dataset, dataset.upper()))


@dataclass
class Ran:
    """What a step took.

    Attributes:
        rows: that it gave.
        got: bytes that came from the bucket.
        asked: columns of objects that it read; no column stands for all of them.
    """

    seconds: float
    rows: int
    got: int
    asked: set[tuple[str, str]]


def run(address: str, caches: str, name: str) -> Ran:
    """Run one step of the chain."""
    from pipeline_tasks.core import parts
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.plan import plan as planned
    from pipeline_tasks.core.registry import get_step
    from pipeline_tasks.core.store.s3 import S3Store

    store = S3Store(address, Path(caches), 1 << 40)
    ran, open_part = Ran(0, 0, 0, set()), parts._opened

    def came(parsed: dict[str, Any], **_: Any) -> None:
        ran.got += parsed.get("ContentLength", 0)

    def opened(given: Any, part: Any, columns: list[str] | None) -> Any:
        ran.asked.update((part.key, column) for column in ([""] if columns is None else columns))
        return open_part(given, part, columns)

    store.bucket.client.meta.events.register("after-call.s3.GetObject", came)
    parts._opened = opened
    began = time.perf_counter()
    outcome = run_job(store, planned(store, get_step(name), CHAIN[name], {}))
    ran.seconds, ran.rows = time.perf_counter() - began, outcome.counters["rows_out"]
    return ran


def fold_lineage(address: str, caches: str) -> None:
    """What the scheduler does after a run."""
    from pipeline_tasks.core.lineage.fold import fold
    from pipeline_tasks.core.store.s3 import S3Store

    fold(S3Store(address, Path(caches), 1 << 40), rows=False)


class Sizes:
    """Bytes of the columns of stored parts."""

    def __init__(self, store: Any) -> None:
        self._store, self._known = store, {}

    def of(self, asked: set[tuple[str, str]]) -> int:
        """What these columns hold, each counted once."""
        whole = {key for key, column in asked if not column}
        return sum(self._of(key)[column] for key, column in asked if not column or key not in whole)

    def _of(self, key: str) -> dict[str, int]:
        import pyarrow.parquet as pq

        if key not in self._known:
            data = self._store.bucket.get(key)[0]
            found, known = pq.ParquetFile(io.BytesIO(data)).metadata, {"": len(data)}
            for group in map(found.row_group, range(found.num_row_groups)):
                for column in map(group.column, range(found.num_columns)):
                    name = column.path_in_schema.split(".")[0]
                    known[name] = known.get(name, 0) + column.total_compressed_size
            self._known[key] = known
        return self._known[key]


def chain(
    folder: Path, address: str, n_passages: int, n_queries: int, refreshes: int
) -> tuple[list[tuple], list[tuple]]:
    """Rows of the table, a step each, and of the table of folds."""
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.store.s3 import S3Store
    from pipeline_tasks.core.versions import Version

    corpus = Corpus(S3Store(address, folder / "planting", 1 << 40), max(500, n_passages // 50))
    corpus.add(n_passages, n_queries)
    steps, folds, sizes = [], [], Sizes(corpus.store)
    for version in range(1 + refreshes):
        if version:
            corpus.add(n_passages // SHARE, max(1, n_queries // SHARE))
            corpus.withdraw(n_passages // SHARE)
        corpus.put()
        for name in CHAIN:
            with tempfile.TemporaryDirectory(dir=folder) as caches:
                found = measured(run, address, caches, name)
            ran = found.value
            print(f"version {version}, {name}: {ran.seconds:.1f} s, {found.peak_mib:,.0f} MiB", flush=True)
            steps.append((version, name, ran.seconds, found.peak_mib, ran.got, sizes.of(ran.asked), ran.rows))
            if name == "near_duplicate_passages":
                left = Version.open(corpus.store, Ref.parse("passages")).manifest
                corpus.embed(left.removals, sum(part.rows for part in left.parts) - left.rows)
            folded = measured(fold_lineage, address, str(folder / "folds"))
            folds.append((folded.seconds, folded.peak_mib))
    return steps, folds


@contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """The address of an empty bucket."""
    from tests.seaweed import running

    with running(folder / "server") as server:
        os.environ.update(server.environment)
        yield server.address()


def main() -> None:
    """Print the tables and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--passages", type=int, default=1_000_000, help="of the first version")
    parser.add_argument("--queries", type=int, default=2048, help="of the first version")
    parser.add_argument("--quick", action="store_true", help="5,000 passages, 250 queries")
    given = parser.parse_args()
    n, queries = (5_000, 250) if given.quick else (given.passages, given.queries)
    linear = {}
    for size, refreshes in ((n // 10, 0), (n, REFRESHES)):
        with tempfile.TemporaryDirectory() as folder, bucket(Path(folder)) as address:
            steps, folds = chain(Path(folder), address, size, queries, refreshes)
        linear[size] = sum(step[2] for step in steps if step[0] == 0 and step[1] != ALL_PAIRS)
        columns = ("version", "step", "seconds", "peak MiB", "MiB read", "MiB of columns", "rows")
        mib = [(*step[:4], step[4] / 2**20, step[5] / 2**20, step[6]) for step in steps]
        show(f"{size:,} passages, {queries:,} queries", columns, mib)
    show("folds", ("version", "seconds", "peak MiB"), [(at, *fold) for at, fold in enumerate(folds, 1)])
    finish(
        {
            "passages": n,
            "seconds": round(sum(step[2] for step in steps), 1),
            "peak_mib_any_process": round(max([step[3] for step in steps] + [fold[1] for fold in folds])),
            "read_amplification": round(sum(step[4] for step in steps) / sum(step[5] for step in steps), 2),
            "fold_seconds_10th_version": round(folds[9][0], 2),
            "fold_seconds_2nd_version": round(folds[1][0], 2),
            "growth_100k_1m": round(linear[n] / linear[n // 10], 2),
        },
    )


if __name__ == "__main__":
    main()
