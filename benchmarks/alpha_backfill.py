"""A new alpha over stored rankings: the step ``mine_negatives`` beside the best DuckDB and polars queries.

``python benchmarks/alpha_backfill.py [--quick]`` (``make bench-install`` first): the last line is one JSON object.

- ``step``: the whole step as the pipeline runs it: reads Parquet, selects, writes triplets with all their texts.
- ``selection``: what the queries do: ids and cosines of the negatives, no texts. It also passes over copies of the
  positive and what answers a query of the same text, which the queries do not, and stores what each block of queries
  came to, for a killed run.

Each runs in a process of its own, over the same Parquet files, after one run at the smallest size in the same process
(imports, compiled code). Peak memory is the whole process'. The last line is of ``selection``, as the queries are, and
beside it of the step (``with_texts``); growth is in time beyond that in rows, 1 for linear.
The passages are the same number at every size.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.backfill_queries import duckdb_lists, duckdb_rows, polars_rows  # noqa: E402
from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import DEPTH, MODEL, plant  # noqa: E402
from pipeline_tasks.core.store import LocalStore, Store  # noqa: E402

ALPHA = 0.9
WORDS = 90
CHOSEN = pa.schema([("query_id", pa.string()), ("ids", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])


def forget(store: Store) -> None:
    """Delete what a run before has made, so that this one makes it."""
    store.delete_all([*store.keys("versions/mtt"), *store.keys("memo")])


def step(root: Path, alpha: float = ALPHA) -> dict[str, float]:
    """Counters of the step."""
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.plan import plan as planned
    from pipeline_tasks.core.registry import get_step

    store = LocalStore(root)
    forget(store)
    job = planned(store, get_step("mine_negatives"), {"alpha": alpha, "models": (MODEL,)}, {})
    return dict(run_job(store, job).counters)


def selection(root: Path) -> int:
    """Negatives chosen; ids and cosines are written to one Parquet file."""
    import pyarrow.parquet as pq

    from pipeline_tasks.core.engines.local import Local
    from pipeline_tasks.core.partitions import PartitionedRun
    from pipeline_tasks.core.plan import plan as planned
    from pipeline_tasks.core.registry import get_step
    from pipeline_tasks.core.run import Inputs
    from pipeline_tasks.core.versions import read_part
    from pipeline_tasks.curation.mine_negatives import mine

    store = LocalStore(root)
    forget(store)
    job = planned(store, get_step("mine_negatives"), {"alpha": ALPHA, "models": (MODEL,)}, {})
    inputs, n = Inputs(job.open(store)), 0
    run = PartitionedRun(store, inputs, 0, "selection", "selection", job=job)
    with Local(1) as run.engine, pq.ParquetWriter(root / "chosen.parquet", CHOSEN) as writer:
        for mined in mine(inputs, job.params, run):
            found = read_part(store, mined.chosen, ["query", "negative_ids", "negative_scores"])
            names = mined.block.read(["query_id"])["query_id"].take(found["query"])
            writer.write_table(pa.table([names, found["negative_ids"], found["negative_scores"]], schema=CHOSEN))
            n += pa.compute.sum(pa.compute.list_value_length(found["negative_ids"])).as_py()
    return n


METHODS = {
    "step": step,
    "selection": selection,
    "duckdb_lists": duckdb_lists,
    "duckdb_rows": duckdb_rows,
    "polars_rows": polars_rows,
}


def warmed(method: str, small: str, root: str) -> tuple[str, str]:
    """One run at the smallest size."""
    METHODS[method](Path(small))
    return method, root


def run(given: tuple[str, str]) -> object:
    """The timed run."""
    method, root = given
    return METHODS[method](Path(root))


def main() -> None:
    """Print the table and the line of JSON."""
    quick = "--quick" in sys.argv
    sizes = (500, 2_000, 4_000) if quick else (2_000, 50_000, 100_000, 200_000)
    rows, seconds, peaks = [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder) / str(n) for n in sizes]
        for n, root in zip(sizes, roots, strict=True):
            plant(root, n, sizes[-1] // 2, WORDS)
        for n, root in zip(sizes[1:], roots[1:], strict=True):
            negatives = {}
            for method in METHODS:
                got = measured(run, method, str(roots[0]), str(root), prepare=warmed)
                found = got.value["negatives"] if isinstance(got.value, dict) else got.value
                negatives[method], seconds[method, n], peaks[method, n] = found, got.seconds, got.peak_mib
                rows.append((n, n * DEPTH, method, got.seconds, n * DEPTH / got.seconds / 1e6, got.peak_mib, found))
            if len(set(negatives.values())) != 1:
                raise SystemExit(f"the methods differ in what they choose: {negatives}")
    show(
        f"a new alpha, {DEPTH} candidates a query, texts of about {WORDS * 6} characters",
        ("queries", "candidates", "method", "seconds", "M candidates/s", "peak MiB", "negatives"),
        rows,
    )
    last, first = sizes[-1], sizes[1]
    duckdb = min(seconds["duckdb_lists", last], seconds["duckdb_rows", last])
    finish(
        {
            "rows": last * DEPTH,
            "seconds": round(seconds["selection", last], 2),
            "seconds_with_texts": round(seconds["step", last], 2),
            "ratio_to_duckdb": round(duckdb / seconds["selection", last], 2),
            "ratio_to_duckdb_with_texts": round(duckdb / seconds["step", last], 2),
            "ratio_to_polars": round(seconds["polars_rows", last] / seconds["selection", last], 2),
            "peak_mib": round(peaks["selection", last]),
            "peak_mib_with_texts": round(peaks["step", last]),
            "growth": round(seconds["selection", last] / seconds["selection", first] / (last / first), 2),
            "growth_with_texts": round(seconds["step", last] / seconds["step", first] / (last / first), 2),
        },
        {},
    )


if __name__ == "__main__":
    main()
