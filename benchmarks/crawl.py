"""A crawl of a hostile site with two SIGKILLs: every address accounted for, nothing fetched twice, memory flat?

``python benchmarks/crawl.py [--quick]``: a table, and one JSON object as the last line. The site runs in a process of
its own; 10% of its addresses are faults (see ``hostile_site.py``), each with one right reason.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpcore
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import hostile_site  # noqa: E402
from pipeline_tasks.core import progress  # noqa: E402
from pipeline_tasks.core.execution.runner import run_job  # noqa: E402
from pipeline_tasks.core.ids import short_id  # noqa: E402
from pipeline_tasks.core.manifest import Ref  # noqa: E402
from pipeline_tasks.core.plan import plan  # noqa: E402
from pipeline_tasks.core.store import LocalStore  # noqa: E402
from pipeline_tasks.core.versions import Version  # noqa: E402
from pipeline_tasks.corpus.crawl import crawl  # noqa: E402
from pipeline_tasks.corpus.list_urls import list_urls  # noqa: E402

os.environ["FOUNDRY_ALLOW_HOSTS"] = ",".join(hostile_site.HOSTS)
KILLS = 2
SETTINGS = {
    "delay_s": 0,
    "per_host": 4,
    "attempts": 2,
    "timeout_s": 2.0,
    "max_bytes": 4 << 20,
}
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Site:
    """A running site and its log."""

    port: int
    log: Path

    def lines(self) -> list[str]:
        """``ask PATH`` and ``sent PATH`` so far."""
        return self.log.read_text().splitlines()


@dataclass
class Result:
    """What came out at one size."""

    n: int
    seconds: float = 0.0
    bare_s: float = 0.0
    peak_mib: float = 0.0
    accounted: int = 0
    wrong: int = 0
    fetched_twice: int = 0
    in_flight: int = 0
    progress: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def crawl_here(root: Path, log: Path) -> None:
    """What each child does: the same command again and again."""
    progress.LOG_EVERY_S = 1.0
    logging.basicConfig(filename=log, level=logging.INFO, format="%(message)s")
    store = LocalStore(root)
    outcome = run_job(store, plan(store, crawl, SETTINGS))
    log.with_suffix(".json").write_text(json.dumps(outcome.counters))


def measure(n: int, site: Site, folder: Path) -> Result:
    """Crawl ``n`` addresses, killed after a third and two thirds of them."""
    result = Result(n)
    folder.mkdir()
    store = LocalStore(folder / "store")
    (folder / "urls.txt").write_text("\n".join(hostile_site.urls(n, site.port)))
    run_job(store, plan(store, list_urls, {"source": str(folder / "urls.txt")}))
    finished: set[str] = set()
    started = time.monotonic()
    for kill in range(KILLS + 1):
        before = len(site.lines())
        child = _SPAWN.Process(target=crawl_here, args=(store.root, folder / "crawl.log"))
        child.start()
        stop_at = n * (kill + 1) // (KILLS + 1) if kill < KILLS else None
        result.peak_mib = max(result.peak_mib, _watch(child, store, stop_at))
        asked = Counter(line.split()[1] for line in site.lines()[before:] if line.startswith("ask "))
        result.fetched_twice += sum(path in asked for path in finished)
        if kill < KILLS:
            finished = {_path(line) for line in _journal(store)}
    result.seconds = time.monotonic() - started
    sent = Counter(line for line in site.lines() if line.startswith("sent "))
    result.in_flight = sum(count - 1 for count in sent.values())
    result.progress = (folder / "crawl.log").read_text().count(" urls/s")
    result.bare_s = asyncio.run(_bare([u for u in hostile_site.urls(n, site.port) if "/ok/" in u]))
    _check(result, store, site.port)
    return result


def _watch(child: multiprocessing.Process, store: LocalStore, stop_at: int | None) -> float:
    """Wait for ``child``, or kill it once the journal has ``stop_at`` lines; its largest resident size in MiB."""
    peak = 0
    while child.is_alive():
        peak = max(peak, _resident_kib(child.pid or 0))
        if stop_at is not None and len(_journal(store)) >= stop_at:
            child.kill()
            child.join()
        child.join(0.02)
    if stop_at is None and child.exitcode != 0:
        raise SystemExit(f"the crawl ended with {child.exitcode}")
    return peak / 1024


def _resident_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def _journal(store: LocalStore) -> list[bytes]:
    found = list((store.root / "scratch").glob("*/outcomes.jsonl"))
    return [line for path in found for line in path.read_bytes().split(b"\n")[:-1]]


_PATHS: dict[str, str] = {}


def _path(line: bytes) -> str:
    return _PATHS[json.loads(line)["url_id"]]


async def _bare(good: list[str]) -> float:
    """Seconds that the same HTTP library takes for the good documents, with nothing around it."""
    queue = iter(good)
    started = time.monotonic()

    async def work(pool: httpcore.AsyncConnectionPool) -> None:
        for url in queue:
            async with pool.stream("GET", url) as response:
                async for _ in response.aiter_stream():
                    pass

    async with httpcore.AsyncConnectionPool(max_connections=16) as pool:
        await asyncio.gather(*(work(pool) for _ in range(16)))
    return time.monotonic() - started


def _check(result: Result, store: LocalStore, port: int) -> None:
    """Every address ended, and as planted."""
    downloads = Version.open(store, Ref.parse("downloads"))
    ends = {key: "ok" for part in downloads.parts(["url_id"]) for key in part["url_id"].to_pylist()}
    for part in downloads.rejects().parts():
        ends |= dict(zip(part["row_id"].to_pylist(), part["reason"].to_pylist(), strict=True))
    result.reasons = Counter(ends.values())
    for url in hostile_site.urls(result.n, port):
        end = ends.get(short_id(url))
        result.accounted += end is not None
        result.wrong += end != hostile_site.FAULTS.get(urlsplit(url).path.split("/")[1], "ok")


def main() -> None:
    """Run every size and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size alone")
    sizes = (200,) if parser.parse_args().quick else (500, 1000, 2000)
    results = []
    with tempfile.TemporaryDirectory() as name:
        for n in sizes:
            results.append(_with_site(n, Path(name)))
    table = Table("addresses", "accounted", "wrong reason", "fetched twice", "in flight at a kill", "s", "addresses/s",
                  "documents alone, bare client, s", "peak MiB", "progress lines")  # fmt: skip
    for r in results:
        table.add_row(str(r.n), str(r.accounted), str(r.wrong), str(r.fetched_twice), str(r.in_flight),
                      f"{r.seconds:.1f}", f"{r.n / r.seconds:.0f}", f"{r.bare_s:.1f}", f"{r.peak_mib:.0f}",
                      str(r.progress))  # fmt: skip
    console = Console(width=160)
    console.print(table)
    last = results[-1]
    console.print(", ".join(f"{reason} {count}" for reason, count in sorted(last.reasons.items())))
    print(
        json.dumps(
            {
                "urls": last.n,
                "accounted": last.accounted,
                "fetched_twice": last.fetched_twice,
                "peak_mib": round(last.peak_mib, 1),
                "peak_mib_by_urls": {str(r.n): round(r.peak_mib, 1) for r in results},
                "wrong_reason": last.wrong,
            }
        )
    )


def _with_site(n: int, folder: Path) -> Result:
    log = folder / f"site-{n}.log"
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=hostile_site.serve, args=(theirs, log), daemon=True)
    process.start()
    try:
        site = Site(ours.recv(), log)
        _PATHS.update({short_id(url): urlsplit(url).path for url in hostile_site.urls(n, site.port)})
        return measure(n, site, folder / str(n))
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
