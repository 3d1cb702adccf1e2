"""What a bucket costs: one key, a part of 64 MiB, a no-op run and a map step; beside plain boto3 and a folder.

The server is a SeaweedFS on this machine, so the figures hold our own overhead and that server's, no network's.
``python benchmarks/object_store.py``; the last line is one JSON object. ``--quick`` takes fewer rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeline_tasks.core.execution.runner import run_job  # noqa: E402
from pipeline_tasks.core.ids import file_sha256  # noqa: E402
from pipeline_tasks.core.plan import plan  # noqa: E402
from pipeline_tasks.core.store import LocalStore, Store  # noqa: E402
from pipeline_tasks.core.store.s3 import S3Store  # noqa: E402
from tests.core.toy_steps import make, toy_list, toy_scale  # noqa: E402
from tests.seaweed import BUCKET, Seaweed  # noqa: E402

PART_BYTES = 64 << 20
PARTS = 100


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Median of ``rounds`` runs."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def small_keys(store: Store, label: str, n: int) -> dict[str, float]:
    """Milliseconds per request of about 300 bytes."""
    keys = iter(f"{label}/{i:06d}" for i in range(10 * n))
    made = [next(keys) for _ in range(n)]
    written = iter(made)
    found = {"create": seconds(lambda: store.create(next(written), b"x" * 300), n)}
    again, there, gone = iter(made), iter(made), iter(made)
    found["read"] = seconds(lambda: store.read(next(again)), n)
    found["exists"] = seconds(lambda: store.exists(next(there)), n)
    found["lost create"] = seconds(lambda: store.create(next(gone), b"y"), n)
    began = time.perf_counter()
    list(store.read_all(made))
    found["read, side by side"] = (time.perf_counter() - began) / n
    return {name: 1000 * value for name, value in found.items()}


def plain_keys(client: object, n: int) -> dict[str, float]:
    """The same through boto3."""
    put, get, got = iter(range(n)), iter(range(n)), iter(range(n))
    at = lambda i: {"Bucket": BUCKET, "Key": f"plain/{i:06d}"}  # noqa: E731
    found = {
        "create": seconds(lambda: client.put_object(Body=b"x" * 300, IfNoneMatch="*", **at(next(put))), n),
        "read": seconds(lambda: client.get_object(**at(next(get)))["Body"].read(), n),
        "exists": seconds(lambda: client.head_object(**at(next(got))), n),
    }
    return {name: 1000 * value for name, value in found.items()}


def large_part(store: Store, fresh: Callable[[int], Store], rounds: int) -> dict[str, float]:
    """MiB per second of a part of 64 MiB: written, read by another machine, read again there."""
    put, get, again = [], [], []
    for i in range(rounds):
        other = fresh(i)
        with store.temporary() as path:
            path.write_bytes(np.random.default_rng(i).bytes(PART_BYTES))
            sha256 = file_sha256(path)
            key = f"objects/{sha256[:2]}/{sha256}"
            put.append(seconds(lambda: store.create_from(key, path), 1))  # noqa: B023
        get.append(seconds(lambda: other.local_path(key), 1))  # noqa: B023
        again.append(seconds(lambda: other.local_path(key), 1))  # noqa: B023
    mib = PART_BYTES / (1 << 20)
    return {"put": mib / statistics.median(put), "get": mib / statistics.median(get)} | {
        "get again, ms": 1000 * statistics.median(again)
    }


def plain_part(client: object, folder: Path, rounds: int) -> dict[str, float]:
    """The same through boto3's upload_file and download_file, which check no sha256."""
    put, get = [], []
    path, back = folder / "part", folder / "back"
    for i in range(rounds):
        path.write_bytes(np.random.default_rng(100 + i).bytes(PART_BYTES))
        put.append(seconds(lambda: client.upload_file(str(path), BUCKET, f"plain/part{i}"), 1))  # noqa: B023
        get.append(seconds(lambda: client.download_file(BUCKET, f"plain/part{i}", str(back)), 1))  # noqa: B023
    mib = PART_BYTES / (1 << 20)
    return {"put": mib / statistics.median(put), "get": mib / statistics.median(get)}


def runs(store: Store, requests: Callable[[], int]) -> dict[str, tuple[float, int]]:
    """Seconds and requests of a map step over ``PARTS`` small parts, of its no-op, and of it with every part known."""
    make(store, toy_list, rows={f"item{n:04d}": n + 20 for n in range(PARTS)}, part_rows=1)
    found = {}

    def one(name: str, work: Callable[[], object]) -> None:
        before, began = requests(), time.perf_counter()
        work()
        found[name] = (time.perf_counter() - began, requests() - before)

    job = plan(store, toy_scale, {})
    one("map step", lambda: run_job(store, job))
    one("no-op", lambda: make(store, toy_scale))
    store.delete(f"versions/{job.ref.dataset}/{job.ref.version}.json")
    one("map step, all parts known", lambda: run_job(store, job))
    return found


def main(folder: Path, n: int, rounds: int) -> None:
    """Measure and print."""
    out = Console()
    server = Seaweed(folder / "server")
    os.environ.update(server.environment)
    server.start()
    try:
        address = server.address()
        store = S3Store(address, folder / "caches", 1 << 34)
        asked = [0]
        store.bucket.client.meta.events.register("before-send.s3", lambda **_: asked.__setitem__(0, asked[0] + 1))
        client, local = server.client(), LocalStore(folder / "store")
        store.read("warm")
        keys = {
            "bucket": small_keys(store, "small", n),
            "boto3": plain_keys(client, n),
            "folder": small_keys(local, "small", n),
        }
        parts = {
            "bucket": large_part(store, lambda i: S3Store(address, folder / f"reader{i}", 1 << 34), rounds),
            "boto3": plain_part(client, folder, rounds),
            "folder": large_part(local, lambda _: local, rounds),
        }
        steps = {"bucket": runs(store, lambda: asked[0]), "folder": runs(local, lambda: 0)}
    finally:
        server.kill()
    show(out, keys, parts, steps)
    ratios = {f"ratio_{name}": keys["boto3"][name] / keys["bucket"][name] for name in keys["boto3"]}
    ratios |= {f"ratio_part_{name}": parts["bucket"][name] / parts["boto3"][name] for name in parts["boto3"]}
    noop = steps["bucket"]["no-op"]
    out.print(json.dumps({k: round(v, 3) for k, v in ratios.items()} | {"noop_requests": noop[1]}), soft_wrap=True)


def show(out: Console, keys: dict, parts: dict, steps: dict) -> None:
    """Three tables."""
    for title, rows, unit in (
        ("One key of 300 bytes", keys, "ms"),
        ("A part of 64 MiB", parts, "MiB/s, unless said"),
    ):
        names = list(rows["bucket"])
        table = Table(f"{title}, {unit}", *names)
        for who, found in rows.items():
            table.add_row(who, *(f"{found[name]:.2f}" if name in found else "" for name in names))
        out.print(table)
    table = Table(f"{PARTS} parts", "seconds in a bucket", "requests", "seconds in a folder")
    for name, (taken, count) in steps["bucket"].items():
        table.add_row(name, f"{taken:.2f}", f"{count}", f"{steps['folder'][name][0]:.2f}")
    out.print(table)


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), 50 if quick else 300, 2 if quick else 5)
