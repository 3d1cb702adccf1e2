"""What removals cost a reader: passages in small parts, a tenth of them removed, beside the same with none removed.

``python benchmarks/read_removals.py [--rows N …] [--quick]``: the last line is one JSON object. Seconds are of the
processor, which other work on the machine changes little; the two reads take turns in one process.

- ``ratio``: reading all columns of what is left over reading all columns of all; ``ratio_one_column`` of one column.
- ``first_s``: a read that looks up which rows are gone, as whoever commits a version does, once.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show, spread, turns  # noqa: E402
from pipeline_tasks.core.manifest import Manifest, Ref, Removal  # noqa: E402
from pipeline_tasks.core.parts import write_rows  # noqa: E402
from pipeline_tasks.core.store import LocalStore  # noqa: E402
from pipeline_tasks.core.versions import REMOVED, Version, commit, point  # noqa: E402
from pipeline_tasks.datasets import PASSAGES  # noqa: E402

PART_ROWS = 400
LISTS = 3
CHARS = 600
READS = {"all columns": None, "one column": ["split"]}


def plant(root: Path, n: int) -> None:
    """``none`` with ``n`` passages, and ``tenth`` with the same parts and :data:`LISTS` lists of removed keys."""
    import pyarrow as pa

    store, draw = LocalStore(root), random.Random(7)
    words = draw.randbytes(1 << 20).hex()
    ids = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(n)]
    parts = []
    for start in range(0, n, PART_ROWS):
        rows = [
            {"passage_id": key, "text": words[(at := draw.randrange(1 << 20)) : at + CHARS], "split": "train"}
            for key in ids[start : start + PART_ROWS]
        ]
        parts.append(write_rows(store, PASSAGES.table(rows)))
    gone = draw.sample(ids, n // 10)
    lists = [write_rows(store, pa.table({"key": sorted(gone[i::LISTS])}, schema=REMOVED)) for i in range(LISTS)]
    none = Manifest(
        dataset="none", id="0" * 16, step="planted", code_version="1", rows_schema=PASSAGES.name, key=PASSAGES.key,
        params={}, inputs={}, rows=n, parts=parts,
    )  # fmt: skip
    removals = [Removal(part=part, column=PASSAGES.key, first=0, last=len(parts)) for part in lists]
    tenth = none.model_copy(update={"dataset": "tenth", "rows": n - len(gone), "removals": removals})
    for manifest in (none, tenth):
        commit(store, manifest)
        point(store, manifest.ref)


def once(version: Version, columns: list[str] | None) -> float:
    """Seconds of the processor that a read of all its rows takes."""
    began = time.process_time()
    rows = sum(table.num_rows for table in version.parts(columns))
    seconds = time.process_time() - began
    if rows != version.manifest.rows:
        raise SystemExit(f"{version.manifest.ref} has {version.manifest.rows:,} rows, and {rows:,} were read")
    return seconds


def read(root: Path) -> dict[str, list[float]]:
    """Seconds of each read, in turns, after a first one of each."""
    store = LocalStore(root)
    opened = {name: Version.open(store, Ref.parse(name)) for name in ("none", "tenth")}
    first = {f"{name}, first": [once(version, None)] for name, version in opened.items()}
    systems = {f"{name}, {read}": (name, columns) for read, columns in READS.items() for name in opened}
    return first | turns(systems, lambda system: once(opened[systems[system][0]], systems[system][1]))


def main() -> None:
    """Print the table and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000], help="passages, a tenth removed")
    parser.add_argument("--quick", action="store_true", help="10,000 and 20,000")
    given = parser.parse_args()
    sizes = (10_000, 20_000) if given.quick else given.rows
    table, figures, spreads = [], {}, {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            plant(Path(folder), n)
            got = measured(read, Path(folder))
        took = {name: min(seconds) for name, seconds in got.value.items()}
        table += [(n, name, seconds, got.peak_mib) for name, seconds in took.items()]
        spreads = {name: spread(seconds) for name, seconds in got.value.items() if len(seconds) > 1}
        figures = {
            "rows": n,
            "parts": -(-n // PART_ROWS),
            "removed": n // 10,
            "seconds": round(took["tenth, all columns"], 2),
            "ratio": round(took["tenth, all columns"] / took["none, all columns"], 2),
            "ratio_one_column": round(took["tenth, one column"] / took["none, one column"], 2),
            "first_s": round(took["tenth, first"], 2),
            "peak_mib": round(got.peak_mib),
        }
    show(f"parts of {PART_ROWS} passages", ("passages", "removed, read", "processor s", "peak MiB"), table)
    finish(figures | {"spread": spreads})


if __name__ == "__main__":
    main()
