"""A refresh of rankings: a hundredth of the passages is new and as many are gone, with and without spare passages.

``python benchmarks/refreshed_rankings.py [--passages N] [--queries N] [--quick]``: the last line is one JSON object.
The step ``rank_passages`` ranks all passages for all queries, then three times what a refresh leaves; ``spare`` is how
many passages beyond each ranking it keeps for that. Both must make the same parts, or the benchmark ends with an error.

- ``share_of_cosines``: cosines of a refresh over those of the first run, the mean of three; ``…_without`` without spare
  passages.
- ``share_of_seconds``: the same of seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import names_of, put_parts, write_block  # noqa: E402
from benchmarks.vectors import unit_vectors  # noqa: E402

MODEL, REFRESHES, SHARE, PARTS, SPARE = "all-minilm-l6-v2", 3, 100, 10, 56


class Planted:
    """Passages in parts of which some are withdrawn, and queries near to some of the first ones, in a store."""

    def __init__(self, folder: Path, n_passages: int, n_queries: int) -> None:
        from pipeline_tasks.core.store import LocalStore
        from pipeline_tasks.core.vectors import lists
        from pipeline_tasks.datasets import PAIR_EMBEDDINGS

        self.store, self._n = LocalStore(folder), n_passages
        self._parts, self._ids, self._removals, self._gone = [], [], [], 0
        near = np.concatenate([self._add(n_passages // PARTS, 10 + part) for part in range(PARTS)])[:n_queries]
        asked, own = (near + share * unit_vectors(n_queries, seed) for share, seed in ((0.9, 5), (0.5, 6)))
        asked, own = (found / np.linalg.norm(found, axis=1, keepdims=True) for found in (asked, own))
        columns = {"query_id": names_of(n_queries, 1_000_000), "positive_id": names_of(n_queries, 2_000_000)}
        columns |= {"query_embedding": lists(asked), "positive_embedding": lists(own)}
        columns |= {"intent": "qa", "origin": "dm", "passage_id": self._ids[0][0]}
        block = write_block(self.store, PAIR_EMBEDDINGS, columns)
        put_parts(self.store, PAIR_EMBEDDINGS, f"query_embeddings/{MODEL}", [block])
        self._put()

    def refresh(self, number: int) -> None:
        """A hundredth of the passages more, and as many withdrawn, from all parts."""
        import pyarrow as pa

        from pipeline_tasks.core.manifest import Removal
        from pipeline_tasks.core.parts import write_rows
        from pipeline_tasks.core.versions import REMOVED

        self._add(self._n // SHARE, 100 + number)
        keys = sorted(name for ids in self._ids for name in ids[number::SHARE])[: self._n // SHARE]
        part = write_rows(self.store, pa.table({"key": keys}, schema=REMOVED))
        self._removals.append(Removal(part=part, column="passage_id", first=0, last=len(self._ids)))
        self._gone += len(keys)
        self._put()

    def _add(self, n: int, seed: int) -> np.ndarray:
        from pipeline_tasks.core.vectors import lists
        from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS

        vectors = unit_vectors(n, seed, 1000)
        self._ids.append(names_of(n, seed))
        columns = {"passage_id": self._ids[-1], "embedding": lists(vectors)}
        self._parts.append(write_block(self.store, PASSAGE_EMBEDDINGS, columns))
        return vectors

    def _put(self) -> None:
        from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS

        put_parts(self.store, PASSAGE_EMBEDDINGS, f"embeddings/{MODEL}", self._parts, self._removals, self._gone)


def ranked(root: Path, spare: int) -> tuple[dict[str, float], list[str]]:
    """Counters of the step, and what the parts of its version are."""
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.plan import plan
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import load_manifest
    from pipeline_tasks.retrieval.rank_passages import rank_passages

    store = LocalStore(root)
    outcome = run_job(store, plan(store, rank_passages, {"model": MODEL, "spare": spare}))
    if outcome.ref is None:
        raise RuntimeError("the step made no version")
    return dict(outcome.counters), [part.sha256 for part in load_manifest(store, outcome.ref).parts]


def chain(n_passages: int, n_queries: int, spare: int) -> tuple[list[tuple[Any, ...]], list[list[str]]]:
    """A row of the table for each version, and what its parts are."""
    rows, parts = [], []
    with tempfile.TemporaryDirectory() as folder:
        planted = Planted(Path(folder), n_passages, n_queries)
        for version in range(1 + REFRESHES):
            if version:
                planted.refresh(version)
            ran = measured(ranked, Path(folder), spare)
            counters, made = ran.value
            counts = [int(counters.get(name, 0)) for name in ("queries_merged", "queries_searched", "cosines")]
            rows.append((spare, version, *counts, ran.seconds, ran.peak_mib))
            parts.append(made)
    return rows, parts


def main() -> None:
    """Print the table and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="5,000 passages, 500 queries")
    given = parser.parse_args()
    n, queries = (5_000, 500) if given.quick else (given.passages, given.queries)
    tables = {spare: chain(n, queries, spare) for spare in (SPARE, 0)}
    if tables[SPARE][1] != tables[0][1]:
        raise RuntimeError("the parts of rankings depend on what is spare")
    columns = ("spare", "version", "merged", "searched", "cosines", "seconds", "peak MiB")
    show(f"{n:,} passages, {queries:,} queries", columns, (row for rows, _ in tables.values() for row in rows))
    last: dict[str, Any] = {"passages": n, "queries": queries}
    for spare, ending in ((SPARE, ""), (0, "_without")):
        first, *others = tables[spare][0]
        for name, at in (("cosines", 4), ("seconds", 5)):
            last[f"share_of_{name}{ending}"] = round(mean(row[at] for row in others) / first[at], 4)
    finish(last)


if __name__ == "__main__":
    main()
