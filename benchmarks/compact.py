"""Thousands of small parts of a bucket, read by a machine that has none of them: before and after ``foundry compact``.

``python benchmarks/compact.py [--parts N] [--wait-ms MS] [--quick]``: the last line is one JSON object. The server is a
SeaweedFS on this machine; ``--wait-ms`` holds every request back as a network would.

- ``requests_before``, ``requests_after``: of the reader.
- ``ratio_seconds``: before over after; ``ratio_seconds_waiting``: the same with the wait.
- ``read_amplification``: bytes that came after, over those of the parts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import names_of, put_blocks, texts_of  # noqa: E402

ROWS, WORDS = 100, 90


@dataclass
class Read:
    """What a reader took."""

    seconds: float
    requests: int
    got: int
    rows: int


def read_all(address: str, caches: str, wait_s: float) -> Read:
    """Read all texts of ``passages``."""
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.store.s3 import S3Store
    from pipeline_tasks.core.versions import Version

    store, taken = S3Store(address, Path(caches), 1 << 40), Read(0, 0, 0, 0)

    def sent(**_: Any) -> None:
        taken.requests += 1
        time.sleep(wait_s)

    def came(parsed: dict[str, Any], **_: Any) -> None:
        taken.got += parsed.get("ContentLength", 0)

    store.bucket.client.meta.events.register("before-send.s3", sent)
    store.bucket.client.meta.events.register("after-call.s3.GetObject", came)
    began = time.perf_counter()
    taken.rows = sum(table.num_rows for table in Version.open(store, Ref.parse("passages")).parts(["text"]))
    taken.seconds = time.perf_counter() - began
    return taken


def put_together(address: str, caches: str) -> tuple[int, int]:
    """Parts and packs."""
    from pipeline_tasks.core.store.s3 import S3Store
    from pipeline_tasks.core.upkeep.compact import compact, find_scattered

    time.sleep(1.1)  # the server's clock counts in seconds
    store = S3Store(address, Path(caches), 1 << 40)
    found = find_scattered(store, grace_s=0)
    compact(store, found)
    return len(found.objects), len(found.groups)


def main() -> None:
    """Print the table and the line of JSON."""
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.store.s3 import S3Store
    from pipeline_tasks.core.versions import load_manifest
    from pipeline_tasks.datasets import PASSAGES
    from tests.seaweed import running

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--parts", type=int, default=4_000, help="of 100 rows of 90 words")
    parser.add_argument("--wait-ms", type=float, default=30.0, help="that every request is held back")
    parser.add_argument("--quick", action="store_true", help="2,000 parts, no packs of less than 32 MiB are made")
    given = parser.parse_args()
    n_parts, wait_s = 2_000 if given.quick else given.parts, given.wait_ms / 1000
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "server") as server:
        os.environ.update(server.environment)
        address = server.address()
        store = S3Store(address, Path(folder) / "planting", 1 << 40)
        blocks = ({"passage_id": names_of(ROWS, seed), "split": "train"} for seed in range(n_parts))
        put_blocks(store, PASSAGES, "passages", (b | {"text": texts_of(b["passage_id"], WORDS)} for b in blocks))
        size = load_manifest(store, Ref.parse("passages")).size_bytes

        def read(name: str, wait_s: float) -> Read:
            return measured(read_all, address, f"{folder}/{name}", wait_s).value

        before, slow_before = read("before", 0), read("slow-before", wait_s)
        packing = measured(put_together, address, f"{folder}/packing")
        after, slow_after = read("after", 0), read("slow-after", wait_s)
    rows = [
        (name, found.seconds, found.requests, found.got / 2**20, found.rows)
        for name, found in {
            "one by one": before,
            f"one by one, {given.wait_ms:g} ms a request": slow_before,
            "in packs": after,
            f"in packs, {given.wait_ms:g} ms a request": slow_after,
        }.items()
    ]
    show(f"{n_parts:,} parts, {size / 2**20:,.0f} MiB", ("parts", "seconds", "requests", "MiB read", "rows"), rows)
    parts, packs = packing.value
    print(f"{parts:,} parts into {packs} packs: {packing.seconds:.1f} s, {packing.peak_mib:,.0f} MiB")
    finish(
        {
            "parts": n_parts,
            "packs": packs,
            "requests_before": before.requests,
            "requests_after": after.requests,
            "ratio_seconds": round(before.seconds / after.seconds, 2),
            "ratio_seconds_waiting": round(slow_before.seconds / slow_after.seconds, 2),
            "read_amplification": round(after.got / size, 2),
            "pack_peak_mib": round(packing.peak_mib),
        }
    )


if __name__ == "__main__":
    main()
