from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline_tasks.core.confine import CALLS, FILES, NAMESPACE
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.corpus import worker_processes
from pipeline_tasks.corpus.pdf.model import Unreadable
from pipeline_tasks.corpus.workers import _NOTHING_YET, Limits, _Killed, _Order, run_limited
from tests.corpus.misbehaving import BUSY, obey

PLENTY = Limits(60)
LITTLE = Limits(0.4, patience=600)
TIMEOUT = Unreadable("timeout", "took more than 0.4 s of processor time")
KILLED_WITH_WORK_TO_DO = """
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.misbehaving import obey
results = run_limited(obey, [b"a", b"hang"], 1, Limits(60))
next(results)
print(results.gi_frame.f_locals["crew"][0].process.pid, flush=True)
next(results)
"""


def command(path: Path) -> str:
    """Command line of a process; nothing where it has ended."""
    with suppress(OSError):
        return path.read_text()
    return ""


@pytest.mark.parametrize("processes", [1, 3])
def test_one_bad_item_costs_itself_alone(processes):
    orders = [b"a", b"burn 60", b"b", b"exit 7", b"c", b"raise", b"d", b"unsendable", b"e"]
    results = list(run_limited(obey, orders, processes, LITTLE))
    assert results[1] == TIMEOUT
    assert results[3] == Unreadable("crashed", "the reader ended with exit code 7")
    assert [results[i].reason for i in (5, 7)] == ["crashed"] * 2
    assert [results[i] for i in (0, 2, 4, 6, 8)] == ["A", "B", "C", "D", "E"]


def test_a_reader_that_says_nothing_at_all_is_answered_for():
    assert list(run_limited(obey, [b"nothing", b"a"], 1, PLENTY)) == [None, "A"]


def test_an_item_that_waits_for_the_machine_is_not_refused():
    assert list(run_limited(obey, [b"wait 1.2"], 1, LITTLE)) == ["waited"]


def test_earlier_items_do_not_use_up_the_time_of_the_next():
    assert list(run_limited(obey, [b"burn 0.2"] * 4, 1, LITTLE)) == ["burnt"] * 4


def test_what_took_too_much_is_refused_even_where_it_was_finished_before_anybody_looked():
    limits = Limits(0.1, patience=600)
    assert list(run_limited(obey, [b"burn 0.15"], 1, limits))[0].reason == "timeout"


def test_processor_time_of_what_a_worker_started_counts():
    assert list(run_limited(obey, [f"start {BUSY}".encode(), b"a"], 1, LITTLE)) == [TIMEOUT, "A"]


def test_a_worker_that_waits_for_ever_asks_to_try_again():
    with pytest.raises(TransientError, match=r"flood\.pdf: .* has been at it for 0\.5 s on the clock"):
        list(run_limited(obey, [b"hang"], 1, Limits(0.1, patience=5), ["flood.pdf"]))


def test_a_worker_that_is_told_to_end_asks_to_try_again():
    with pytest.raises(TransientError, match=r"flood\.pdf: its reader was told from outside to end \(signal 15\)"):
        list(run_limited(obey, [b"signal 15"], 1, PLENTY, ["flood.pdf"]))


@pytest.mark.parametrize("processes", [1, 3])
def test_an_item_whose_worker_the_system_kills_near_its_limit_alone_too_is_refused_and_no_other(processes):
    orders = [b"a", b"killed-at 124", b"b", b"killed-at 124", b"c"]
    results = list(run_limited(obey, orders, processes, Limits(60, memory_mib=128)))
    assert [results[i] for i in (0, 2, 4)] == ["A", "B", "C"]
    assert results[1] == results[3] == Unreadable("memory", "the system killed its reader, also alone, near 128 MiB")


def test_an_item_whose_worker_the_system_kills_well_within_its_limit_asks_to_try_again_with_more_memory():
    results = run_limited(obey, [b"a", b"killed-at 60", b"b"], 1, Limits(60, memory_mib=128), ["x", "flood.pdf", "y"])
    assert next(results) == "A"
    with pytest.raises(TransientError, match=r"^flood\.pdf: .* also alone, at 6\d of the 128 MiB .* more memory, or a"):
        next(results)


def test_an_item_whose_worker_the_system_kills_is_tried_again_once_the_others_have_ended(tmp_path):
    results = run_limited(obey, [b"a", f"killed-until {tmp_path / 'room'}".encode(), b"b"], 2, PLENTY)
    assert next(results) == "A"
    for worker in results.gi_frame.f_locals["crew"]:
        if worker.task == 1:  # unless its end was seen before that of the first
            assert select.select([worker.process.talk], [], [], 60)[0]
    (tmp_path / "room").touch()
    assert list(results) == ["lived", "B"]


def test_while_a_killed_item_is_tried_again_no_other_is_read():
    class Worker:
        def __init__(self, task: int | None = None) -> None:
            self.task, self.refreshed = task, 0

        def refresh(self) -> None:
            self.refreshed += 1

    order, idle, busy = _Order(3), Worker(), Worker(1)
    assert [order.next([idle, busy]), order.next([idle, busy])] == [0, 1]
    assert order.ended(0, _Killed("x", 1), PLENTY) is _NOTHING_YET
    assert order.next([idle, busy]) is None, "the other is still read"
    busy.task = None
    assert order.next([idle, busy]) == 0 and (idle.refreshed, busy.refreshed) == (1, 1)
    assert order.next([idle, busy]) is None, "it is read alone"
    assert order.ended(0, "A", PLENTY) == "A" and order.next([idle, busy]) == 2


def test_the_kernel_ends_a_worker_whose_parent_does_not_look():
    results = list(run_limited(obey, [f"signal {signal.SIGXCPU.value}".encode()], 1, LITTLE))
    assert results == [TIMEOUT]


def test_memory_beyond_the_limit_is_refused_and_the_next_item_is_answered():
    results = list(run_limited(obey, [b"a", b"hoard", b"b"], 1, Limits(60, memory_mib=256)))
    assert results == ["A", Unreadable("memory", "needs more than 256 MiB"), "B"]


def test_libraries_are_loaded_before_memory_is_limited():
    assert list(run_limited(obey, [b"libraries"], 1, PLENTY)) == ["loaded"]


def test_memory_that_earlier_items_kept_is_no_reason_against_the_next():
    results = list(run_limited(obey, [b"keep 150", b"keep 151", b"keep 152"], 1, Limits(60, memory_mib=256)))
    assert results == ["kept"] * 3


def test_an_item_that_crashes_after_others_is_tried_alone():
    assert list(run_limited(obey, [b"keep-or-crash"] * 3, 1, PLENTY)) == ["kept"] * 3


def test_what_a_worker_started_ends_with_it(tmp_path):
    program = f"{BUSY} # {tmp_path}"
    assert list(run_limited(obey, [f"start {program}".encode(), b"a"], 1, LITTLE)) == [TIMEOUT, "A"]
    end = time.monotonic() + 60  # on a busy machine the kernel takes its time to end what it has killed
    while [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in command(p)]:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_workers_end_with_a_parent_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED_WITH_WORK_TO_DO], stdout=subprocess.PIPE) as parent:
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([worker], [], [], 60)[0]


def test_results_come_in_the_order_of_the_items():
    items = [bytes([97 + i % 26]) * (1 + 50_000 * (i % 3)) for i in range(40)]
    assert list(run_limited(obey, items, 3, PLENTY)) == [item.decode().upper() for item in items]


def test_no_items_no_results():
    assert list(run_limited(obey, [], 3, PLENTY)) == []


def test_a_reader_who_stops_early_leaves_no_process_behind():
    results = run_limited(obey, [b"a", b"hang", b"hang"], 2, PLENTY)
    assert next(results) == "A"
    crew = results.gi_frame.f_locals["crew"]
    results.close()
    assert [Path(f"/proc/{worker.process.pid}").exists() for worker in crew] == [False, False]


def test_a_server_that_is_killed_asks_to_try_again_and_the_next_call_has_a_new_one(monkeypatch):
    servers, give = [], worker_processes.WorkerProcess.give

    def then_kill(process: worker_processes.WorkerProcess, item: bytes) -> None:
        """While the worker is at the item; one that has ended before it has one is replaced, and its server."""
        give(process, item)
        servers.append(worker_processes._server._running[1])
        servers[-1].kill()

    monkeypatch.setattr(worker_processes.WorkerProcess, "give", then_kill)
    with pytest.raises(TransientError, match="run the step again"):
        list(run_limited(obey, [b"hang"], 1, PLENTY))
    monkeypatch.undo()
    servers[0].wait()
    assert list(run_limited(obey, [b"a"], 1, PLENTY)) == ["A"]


def test_what_a_system_does_not_give_is_said_once(caplog):
    for _ in range(2):
        worker_processes._tell((FILES,))
    (said,) = caplog.messages
    assert NAMESPACE in said and CALLS in said and FILES not in said
