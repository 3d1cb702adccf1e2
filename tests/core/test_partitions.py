from __future__ import annotations

import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.headway import headway
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, Rows, pieces
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from tests.core.toy_steps import TOTALS, check_whole, latest, make, rows_of, toy_list, toy_tally
from tests.forked import forked

WORLD = {f"item{n}": n % 5 for n in range(9)} | {"unlucky": 13}
TALLY = {"0": 2, "1": 2, "2": 2, "3": 2, "4": 1}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Five parts of two rows."""
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    return store


def partitions(outcome) -> tuple[int, int]:
    return outcome.counters["partitions_built"], outcome.counters["partitions_reused"]


def tally(store: LocalStore) -> dict[str, int]:
    return {row["total_id"]: row["value"] for row in rows_of(store, "tallies")}


def test_rows_meet_again_and_come_in_one_order(store):
    outcome = make(store, toy_tally)
    assert partitions(outcome) == (5 + 2, 0)
    assert list(tally(store)) == ["0", "2", "4", "1", "3"] and tally(store) == TALLY
    assert [part.rows for part in latest(store, "tallies").manifest.parts] == [3, 2]
    assert [row["row_id"] for row in rows_of(store, "tallies/rejects")] == ["unlucky"]
    assert outcome.counters["tallied_rows"] == 10 and outcome.counters["rows_rejected"] == 1
    assert make(store, toy_tally).reused


@pytest.mark.parametrize(("piece_rows", "workers"), [(1, 1), (4, 2), (1000, 1)])
def test_neither_the_pieces_nor_the_processes_have_a_say_in_the_bytes(store, tmp_path, piece_rows, workers):
    make(store, toy_tally)
    other = LocalStore(tmp_path / "other")
    make(other, toy_list, rows=WORLD)
    make(other, toy_tally, piece_rows=piece_rows, workers=workers)
    assert check_whole(other) == check_whole(store)


def test_a_refresh_computes_the_pieces_that_changed(store):
    make(store, toy_tally, piece_rows=4)
    make(store, toy_list, rows=WORLD | {"new": 0})
    assert partitions(make(store, toy_tally, piece_rows=4)) == (1 + 2, 2), "the last piece, and sums of all pieces"


def test_a_piece_whose_rows_were_removed_is_computed_and_no_other(store):
    make(store, toy_tally)
    make(store, toy_list, rows={name: value for name, value in WORLD.items() if name != "item0"})
    outcome = make(store, toy_tally)
    assert (outcome.counters["tallied_rows"], outcome.counters["partitions_reused"]) == (1, 4)
    assert tally(store) == TALLY | {"0": 1}


def test_what_was_done_before_a_failure_is_not_done_again(store):
    with pytest.raises(TransientError):
        make(store, toy_tally, fail=True)
    job = plan(store, toy_tally, {})
    assert headway(store, job), "who starts it again sees that it came further"
    outcome = run_job(store, job)
    assert partitions(outcome) == (2, 5) and not outcome.counters["tallied_rows"]
    assert outcome.counters["rows_rejected"] == 1, "rejects of a partition are kept with it"
    assert tally(store) == TALLY


def tally_in_child(root: Path) -> None:
    os.setsid()
    make(LocalStore(root), toy_tally, effort=60)


def test_a_killed_run_repeats_only_what_was_not_done(store, tmp_path):
    process: BaseProcess = forked().Process(target=tally_in_child, args=(store.root,))
    process.start()
    while len(list(store.keys("memo"))) < 2 and process.is_alive():
        time.sleep(0.01)
    os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    outcome = make(store, toy_tally, effort=60)
    built, reused = partitions(outcome)
    assert built + reused == 7 and reused >= 2
    calm = LocalStore(tmp_path / "calm")
    make(calm, toy_list, rows=WORLD)
    make(calm, toy_tally, effort=60)
    assert check_whole(store) == check_whole(calm)


def test_what_only_a_killed_run_needs_is_given_up_with_the_commit(store):
    make(store, toy_tally)
    kept = [Record.read(store.read(key)) for key in store.keys("memo")]
    assert len(kept) == 5 and all(record and record.partial and len(record.further) == 1 for record in kept)


def test_a_lost_table_is_made_again(store):
    with pytest.raises(TransientError):
        make(store, toy_tally, fail=True)
    record = Record.read(store.read(next(store.keys("memo"))))
    assert record
    store.delete(record.further[0].key)
    outcome = make(store, toy_tally)
    assert outcome.counters["tallied_rows"] and tally(store) == TALLY


def test_pieces_hold_whole_parts_of_all_versions_in_their_order(store):
    version = latest(store, "items")
    found = pieces({"one": version, "two": version}, 4)
    sizes = [tuple(len(rows.version.manifest.parts) for rows in piece.values()) for piece in found]
    assert sizes == [(2, 0), (2, 0), (1, 0), (0, 2), (0, 2), (0, 1)]
    assert [table["item_id"].to_pylist() for table in found[3]["two"].tables(["item_id"])][0] == ["item0", "item1"]
    first, *further = version.manifest.parts
    grown = Version(store, version.manifest.model_copy(update={"parts": [first, *further, further[0]]}))
    of_grown = [{n: rows.digest for n, rows in piece.items()} for piece in pieces({"one": grown, "two": version}, 4)]
    before = [{n: rows.digest for n, rows in piece.items()} for piece in found]
    assert of_grown[:2] + of_grown[3:] == before[:2] + before[3:], "what grows leaves all other pieces as they are"
    manifest = version.manifest.model_copy(update={"parts": [first, first.model_copy(update={"rows": 0})]})
    behind = pieces({"one": Version(store, manifest)}, 1)
    assert [len(piece["one"].version.manifest.parts) for piece in behind] == [1, 1], "a part without rows is one, too"
    assert len(pieces({"none": Rows.between(version, 0, 0).version}, 4)) == 1


@step(reads={"items": toy_list.writes}, writes=TOTALS, kind="partitioned", dataset="unchecked")
def toy_unchecked(inputs, params: NoParams, run) -> list[Part]:
    """Yields what nobody checked."""
    (given,) = run.spread(other_rows, [Partition()])
    return given


def other_rows(given: Partition, run: Run) -> list[pa.Table]:
    """Rows that are no totals."""
    return [pa.table({"other": [1]})]


def test_rows_of_another_schema_are_refused(store):
    with pytest.raises(InputError, match="toy_unchecked yields a table whose rows were not checked"):
        make(store, toy_unchecked)
