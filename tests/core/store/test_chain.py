"""The toy chain, lineage and gc on a bucket: what a folder gives, a bucket gives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from tests.core.conftest import CACHE_BYTES
from tests.core.together import together
from tests.core.toy_steps import (
    check_whole,
    make,
    rows_of,
    toy_bare,
    toy_gather,
    toy_list,
    toy_model,
    toy_scale,
    toy_total,
    toy_unique,
    toy_weigh,
)
from tests.seaweed import running
from tests.stores import put_part

TICK_S = 1.1  # the server tells times in whole seconds
WORLDS = (
    {f"item{n}": n % 4 for n in range(6)},
    {f"item{n}": n % 4 for n in range(1, 6)} | {"item9": 13, "item8": -1},
)


def chain(store: Store, pause_s: float = 0.0) -> None:
    """Two states of the world, one after the other; a pause before the second lets a server's clock tell them apart."""
    for world, rows in enumerate(WORLDS):
        time.sleep(pause_s if world else 0)
        for what, values in (
            (toy_list, {"rows": rows}),
            (toy_gather, {}),
            (toy_scale, {}),
            (toy_unique, {}),
            (toy_bare, {}),
            (toy_total, {}),
            (toy_model, {}),
            (toy_weigh, {}),
        ):
            make(store, what, **values)


def chain_of(i: int, store: Store) -> list[str]:
    chain(store)
    return sorted(check_whole(store))


@pytest.fixture
def calm(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "calm")
    chain(store)
    return store


def test_a_bucket_holds_the_same_versions_as_a_folder_byte_for_byte(s3, calm, tmp_path):
    assert together(2, chain_of, s3) == [sorted(check_whole(calm))] * 2
    assert check_whole(s3) == check_whole(calm)
    other = S3Store(str(s3), tmp_path / "other", CACHE_BYTES)
    assert check_whole(other) == check_whole(calm)
    for name in ("totals", "unique", "sizes/33m"):
        assert rows_of(other, name) == rows_of(calm, name)
    assert not list(s3.folder.glob("tmp/*")) and not list(s3.folder.glob("scratch/*")) and not list(s3.keys("locks"))


def test_a_server_killed_in_the_middle_of_the_chain_changes_nothing(calm, tmp_path, monkeypatch):
    with running(tmp_path / "server") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = S3Store(server.address(), tmp_path / "caches", CACHE_BYTES, lease_s=5)
        ended: list[BaseException | None] = []

        def work() -> None:
            try:
                chain(store)
                ended.append(None)
            except TransientError as error:
                ended.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        while len(list(store.keys("versions"))) < 3:
            assert worker.is_alive()
            time.sleep(0.02)
        server.kill()
        server.start()
        worker.join()
        assert ended == [None], "it waited until the server was back"
        assert check_whole(store) == check_whole(calm)
        assert not list(store.folder.glob("tmp/*"))


def test_the_second_run_builds_nothing(s3):
    chain(s3)
    assert make(s3, toy_scale).reused and make(s3, toy_total).reused
    events = list(s3.keys("lineage/events"))
    assert make(s3, toy_scale).counters["parts_built"] == 0
    assert len(list(s3.keys("lineage/events"))) == len(events) + 2


def test_the_lineage_of_a_bucket_is_asked_like_that_of_a_folder(s3, calm, tmp_path):
    chain(s3)
    for sql in (
        "SELECT dataset, version, rows, is_latest FROM versions ORDER BY ALL",
        "SELECT dataset, version, reason, row_id FROM rejects ORDER BY ALL",
        "SELECT * FROM items ORDER BY ALL",
        'SELECT * FROM "unique" ORDER BY ALL',
        "SELECT dataset, position, sha256, rows FROM parts ORDER BY ALL",
        "SELECT step, dataset, count(*) AS n FROM steps GROUP BY ALL ORDER BY ALL",
    ):
        assert query(s3, sql).to_pylist() == query(calm, sql).to_pylist(), sql
    other = S3Store(str(s3), tmp_path / "other", CACHE_BYTES)
    assert query(other, "FROM totals").num_rows == 1
    for part in (other.folder / "objects").rglob("*.parquet"):
        part.unlink()
    assert query(other, "SELECT value FROM totals").to_pylist() == rows_of_totals(s3)


def rows_of_totals(store: Store) -> list[dict]:
    return [{"value": row["value"]} for row in rows_of(store, "totals")]


def test_gc_spares_the_young_and_drops_the_old_but_nothing_needed(s3, calm):
    chain(s3, TICK_S)
    key = put_part(s3, b"nobody names me")
    assert find_garbage(s3).keys["objects"] == []
    time.sleep(TICK_S)
    sweep = find_garbage(s3, keep=1, memo=True, grace_s=0)
    assert key in sweep.keys["objects"] and sweep.keys["versions"] and sweep.size_bytes["objects"] > 0
    drop(s3, sweep)
    assert not s3.exists(key) and not (s3.folder / key).exists()
    found = check_whole(s3)
    assert found and found.items() <= check_whole(calm).items()
    assert rows_of(s3, "totals") == rows_of(calm, "totals")
    chain(s3)
    assert rows_of(s3, "totals") == rows_of(calm, "totals")


def test_a_part_that_is_written_again_counts_as_young(s3):
    key = put_part(s3, b"made twice")
    before = s3.bucket.head(key)
    time.sleep(TICK_S)
    put_part(s3, b"made twice")
    after = s3.bucket.head(key)
    assert before and after and after.modified > before.modified
    assert s3.read(key) == b"made twice"


def test_the_command_line_works_on_a_bucket(s3, tmp_path):
    chain(s3)

    def foundry(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline_tasks.cli.main", *arguments]
        return subprocess.run(
            command, env=os.environ | {"COLUMNS": "200"} | variables, capture_output=True, text=True, check=False
        )

    assert "totals" in foundry("ls").stdout
    assert "value" in foundry("show", "totals").stdout
    assert foundry("export", "totals", str(tmp_path / "out")).returncode == 0
    assert foundry("sql", "SELECT count(*) AS n FROM totals", "--format", "csv").stdout == "n\n1\n"
    assert "would drop" in foundry("gc", "--dry-run").stdout
    assert foundry("compact", "--grace-hours", "0").stdout == "0 parts, 0 B, are in 0 packs\n", "less than half a pack"
    assert f"{s3} answers" in " ".join(foundry("doctor").stdout.split())
    wrong = foundry("ls", AWS_SECRET_ACCESS_KEY="wrong-one")
    assert wrong.returncode == 2 and wrong.stderr.startswith("foundry: s3://") and "secret key is wrong" in wrong.stderr
