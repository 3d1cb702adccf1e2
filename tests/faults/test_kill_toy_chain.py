"""SIGKILL at twenty random moments of a toy chain: what comes out is what an undisturbed run makes."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import check_whole, rows_of
from tests.faults.toy_chain import WORLDS, in_child
from tests.forked import forked

KILLS = 20


def start(root: Path, phase: int) -> BaseProcess:
    """A child that has just begun with ``phase``."""
    context = forked()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=in_child, args=(sender, root, phase))
    process.start()
    sender.close()
    assert receiver.recv() == "begin"
    return process


def finish(root: Path, phase: int) -> float:
    """Seconds that ``phase`` takes when nothing disturbs it."""
    process = start(root, phase)
    began = time.monotonic()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - began


def kill_at(root: Path, phase: int, moment_s: float) -> bool:
    """Start ``phase`` and kill it after ``moment_s``; False where it was done before that."""
    process = start(root, phase)
    process.join(moment_s)
    if process.exitcode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def check_listed(root: Path) -> dict[str, bytes]:
    """Manifests of ``root``; nothing that has a name is half-written."""
    store = LocalStore(root)
    for key in store.keys("refs"):
        dataset = key.split("/")[1]
        assert store.exists(f"versions/{dataset}/{(store.read(key) or b'').decode()}.json")
    for key in store.keys("memo"):
        record = Record.model_validate_json(store.read(key) or b"")
        assert store.local_path(record.output.key).stat().st_size == record.output.size_bytes
    for key in store.keys("objects"):
        assert file_sha256(store.local_path(key)) == Path(key).stem
    for key in store.keys("lineage/events"):
        json.loads(store.read(key) or b"")
    return check_whole(store)


def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    durations, expected = [], []
    for phase in range(len(WORLDS)):
        durations.append(finish(calm, phase))
        expected.append(check_listed(calm))
    assert [len(manifests) for manifests in expected] == [5, 10, 15]

    moments = random.Random(20)
    kills, rounds, resumed = 0, 0, 0
    while kills < KILLS:
        rounds += 1
        store = tmp_path / f"killed-{rounds}"
        for phase, duration_s in enumerate(durations):
            while kills < KILLS and kill_at(store, phase, moments.uniform(0, duration_s)):
                kills += 1
                found = check_listed(store)
                resumed += bool(list(LocalStore(store).keys("memo"))) and found.keys() != expected[phase].keys()
                assert found.items() <= expected[phase].items()
            finish(store, phase)
            assert check_listed(store) == expected[phase]
        assert rows_of(LocalStore(store), "totals") == rows_of(LocalStore(calm), "totals")
    assert kills == KILLS
    assert resumed >= KILLS // 2, "most kills came before or after the work; make the chain slower"
