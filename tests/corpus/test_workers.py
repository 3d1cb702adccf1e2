from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_tasks.corpus.pdf.model import Unreadable
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.misbehaving import obey

LIMIT_S = 5.0
OTHERS_FIRST = """
from multiprocessing import forkserver
forkserver.ensure_running()
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.misbehaving import obey
print(*run_limited(obey, [b"libraries"], 1, Limits(60)))
"""


@pytest.mark.parametrize("processes", [1, 3])
def test_one_bad_item_costs_itself_alone(processes):
    orders = [b"a", b"hang", b"b", b"exit", b"c", b"raise", b"d", b"unsendable", b"e"]
    results = list(run_limited(obey, orders, processes, Limits(LIMIT_S)))
    assert results[1] == Unreadable("timeout", "took more than 5 s")
    assert results[3] == Unreadable("crashed", "the reader ended with exit code 7")
    assert [results[i].reason for i in (5, 7)] == ["crashed"] * 2
    assert [results[i] for i in (0, 2, 4, 6, 8)] == [b"A", b"B", b"C", b"D", b"E"]


def test_memory_beyond_the_limit_is_refused_and_the_next_item_is_answered():
    results = list(run_limited(obey, [b"a", b"hoard", b"b"], 1, Limits(LIMIT_S, memory_mib=256)))
    assert results == [b"A", Unreadable("memory", "needs more than 256 MiB"), b"B"]


def test_libraries_do_not_count_even_where_the_server_of_processes_was_started_by_others():
    told = subprocess.run([sys.executable, "-c", OTHERS_FIRST], capture_output=True, text=True, check=True)
    assert told.stdout == "b'loaded'\n"


def test_memory_that_earlier_items_kept_is_no_reason_against_the_next():
    results = list(run_limited(obey, [b"keep 150", b"keep 151", b"keep 152"], 1, Limits(LIMIT_S, memory_mib=256)))
    assert results == [b"kept"] * 3


def test_what_a_worker_started_ends_with_it(tmp_path):
    pid_file = tmp_path / "pid"
    results = list(run_limited(obey, [f"child {pid_file}".encode(), b"a"], 1, Limits(1.5)))
    assert [type(r) for r in results] == [Unreadable, bytes] and results[0].reason == "timeout"
    state = Path(f"/proc/{pid_file.read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_results_come_in_the_order_of_the_items():
    items = [bytes([97 + i % 26]) * (1 + 50_000 * (i % 3)) for i in range(40)]
    assert list(run_limited(obey, items, 3, Limits(LIMIT_S))) == [item.upper() for item in items]


def test_no_items_no_results():
    assert list(run_limited(obey, [], 3, Limits(LIMIT_S))) == []


def test_a_reader_who_stops_early_leaves_no_process_behind():
    results = run_limited(obey, [b"a", b"hang", b"hang"], 2, Limits(60))
    assert next(results) == b"A"
    crew = results.gi_frame.f_locals["crew"]
    results.close()
    assert [worker._process.is_alive() for worker in crew] == [False, False]
