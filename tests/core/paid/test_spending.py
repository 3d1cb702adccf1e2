import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import time_machine

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.paid import spending
from pipeline_tasks.core.paid.spending import Ledger, Limit, LimitReached, key_of, limits, read_state, spent
from pipeline_tasks.core.store import LocalStore

RUN = (Limit("max_run_usd", "usd", "run", 1.0),)


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path)


def usd(store, period="ever", run=""):
    return spent(read_state(store, key_of("llm")), "usd", period, run)


def test_a_request_that_might_pass_a_limit_is_refused_and_not_counted(store):
    ledger = Ledger(store, "llm", RUN, run="v")
    ledger.settle(ledger.reserve(usd=0.7), usd=0.6)
    ledger.reserve(usd=0.4)
    with pytest.raises(LimitReached, match=r"llm: max_run_usd=1 is spent; raise max_run_usd \(1 usd are counted"):
        Ledger(store, "llm", RUN, run="v").reserve(usd=0.1)
    assert usd(store) == usd(store, "run", "v") == 1.0


def test_a_run_does_not_count_for_another(store):
    Ledger(store, "llm", RUN, run="v").reserve(usd=1.0)
    Ledger(store, "llm", RUN, run="w").reserve(usd=1.0)
    assert usd(store) == 2.0


def test_what_open_reservations_will_give_back_is_waited_for(store):
    ledger = Ledger(store, "llm", RUN, run="v")
    first = ledger.reserve(usd=0.9)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(ledger.reserve, usd=0.9)
        with pytest.raises(TimeoutError):
            second.result(0.2)
        ledger.settle(first, usd=0.05)
        assert second.result(30).amounts == {"usd": 0.9}


def test_nobody_waits_for_what_nobody_will_give_back(store):
    ledger = Ledger(store, "llm", RUN, run="v")
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ledger.reserve, usd=2.0) for _ in range(4)]
        for one in asked:
            with pytest.raises(LimitReached):
                one.result(30)


def test_threads_never_pass_a_limit_together(store):
    ledger, most, now, lock = Ledger(store, "llm", RUN, run="v"), [0.0], [0.0], threading.Lock()

    def buy(_):
        try:
            taken = ledger.reserve(usd=0.05)
        except LimitReached:
            return 0
        with lock:
            now[0] += 0.05
            most[0] = max(most[0], now[0])
            now[0] -= 0.02
        ledger.settle(taken, usd=0.03)
        return 1

    with ThreadPoolExecutor(8) as pool:
        bought = sum(pool.map(buy, range(100)))
    ledger.flush()
    assert most[0] <= 1.0 + 1e-9
    assert usd(store) == pytest.approx(0.03 * bought) and 0.95 < 0.03 * bought <= 1.0


def _spend(folder, barrier, n):
    ledger = Ledger(LocalStore(folder), "llm", RUN, run="v")
    barrier.wait()
    for _ in range(n):
        try:
            ledger.take(usd=0.03)
        except LimitReached:
            return


def test_processes_never_pass_a_limit_together(store, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(3)
    children = [spawn.Process(target=_spend, args=(tmp_path, barrier, 100)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert usd(store) == pytest.approx(33 * 0.03)


def test_a_month_ends_and_a_day_too(store):
    of = limits("month", usd=("USD_PER_MONTH", 1.0)) + limits("day", requests=("max_requests_per_day", 2.0))
    with time_machine.travel("2026-11-30T12:00Z", tick=False):
        ledger = Ledger(store, "llm", of)
        ledger.take(requests=1, usd=0.9)
        with pytest.raises(LimitReached, match=r"USD_PER_MONTH=1 is spent; a new month begins on 2026-12-01 \(UTC\)"):
            ledger.take(requests=1, usd=0.2)
        ledger.take(requests=1, usd=0.0)
        with pytest.raises(LimitReached, match="max_requests_per_day=2 is spent; run it again tomorrow"):
            ledger.take(requests=1, usd=0.0)
    with time_machine.travel("2026-12-01T00:00:01Z", tick=False):
        ledger.take(requests=1, usd=0.2)
        assert (usd(store, "month"), usd(store)) == (0.2, 1.1)


def test_what_is_settled_after_midnight_is_corrected_on_its_own_day(store):
    with time_machine.travel("2026-11-30T23:59:59Z", tick=False):
        ledger = Ledger(store, "llm")
        taken = ledger.reserve(usd=1.0)
    with time_machine.travel("2026-12-01T00:00:01Z", tick=False):
        ledger.settle(taken, usd=0.25)
        ledger.flush()
        assert usd(store, "month") == 0.0
    assert read_state(store, key_of("llm"))["days"] == {"2026-11-30": {"usd": 0.25}}


def test_a_pause_is_everybodys(store):
    with time_machine.travel("2026-11-30T12:00Z", tick=False):
        Ledger(store, "llm").pause(30.0)
        assert Ledger(store, "llm").take(requests=1).wait_s == pytest.approx(30.0)


@pytest.mark.parametrize("hours", [-6, 6])
def test_a_clock_that_is_wrong_makes_nobody_wait_for_longer(store, hours):
    def wait_s(clock):
        with time_machine.travel(clock, tick=False):
            return Ledger(store, "llm", per_s=1.0).take(requests=1).wait_s

    right, wrong = "2026-11-30T12:00Z", f"2026-11-30T{12 + hours:02}:00Z"
    assert max(wait_s(clock) for clock in (wrong, right, right, wrong, wrong, right)) <= 6.0
    with time_machine.travel(wrong, tick=False):
        Ledger(store, "llm").pause(30.0)
    with time_machine.travel(right, tick=False):
        Ledger(store, "llm").pause(40.0)
    assert wait_s(right) == pytest.approx(40.0)


class Away(LocalStore):
    """A store that takes nothing at first."""

    away = True

    def replace(self, key, data):
        if self.away:
            raise OSError("away")
        super().replace(key, data)


def test_a_store_that_is_away_loses_no_correction(tmp_path):
    store = Away(tmp_path)
    store.away = False
    ledger = Ledger(store, "llm")
    ledger.settle(ledger.reserve(usd=1.0), usd=0.5)
    store.away = True
    with pytest.raises(OSError, match="away"):
        ledger.take(usd=0.1)
    store.away = False
    ledger.flush()
    assert usd(store) == 0.5, "what was not counted was not sent"


class Suspended(LocalStore):
    """A store whose user is suspended after a read for so long that its lock is another's, who spends meanwhile."""

    slept = False

    def read(self, key):
        data = super().read(key)
        if not self.slept:
            self.slept = True
            Ledger(Elsewhere(self.root), "llm").take(usd=0.25)
        return data


class Elsewhere(LocalStore):
    """The same store with locks of its own."""

    def alone(self, name):
        return super().alone(f"elsewhere-{name}")


@pytest.mark.parametrize(
    ("change", "counted"),
    [(lambda ledger: ledger.take(usd=0.5), 0.75), (lambda ledger: ledger.pause(30.0), 0.25)],
    ids=["take", "pause"],
)
def test_who_loses_the_lock_forgets_nothing_of_what_others_spend(tmp_path, change, counted):
    change(Ledger(Suspended(tmp_path), "llm"))
    assert usd(LocalStore(tmp_path)) == counted


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"days": {"2026-11-30": 3}, "next_at": 0}', b'{"days": {}}'])
def test_a_damaged_ledger_is_no_leave_to_spend(store, damaged):
    store.replace(key_of("llm"), damaged)
    with pytest.raises(InputError, match=r"spending/llm\.json is no ledger"):
        Ledger(store, "llm").take(usd=1.0)


@pytest.mark.parametrize("clocks", [("2026-11-30", "2027-03-30"), ("1970-01-02", "2026-11-30")])
def test_no_clock_makes_a_run_spend_again_what_it_has_spent(store, clocks):
    for run, clock in zip("vw", clocks, strict=True):
        with time_machine.travel(f"{clock}T00:00Z", tick=False):
            Ledger(store, "llm", RUN, run=run).take(usd=1.0)
    with time_machine.travel(f"{clocks[0]}T00:01Z", tick=False), pytest.raises(LimitReached):
        Ledger(store, "llm", RUN, run="v").take(usd=1.0)


def test_of_more_runs_than_are_remembered_those_that_were_last_written_are(store, monkeypatch):
    monkeypatch.setattr(spending, "REMEMBERED_RUNS", 3)
    store.replace(key_of("llm"), b'{"days": {}, "next_at": 0, "runs": {"x": {"day": "2026-11-30", "usd": 1.0}}}')
    with pytest.raises(LimitReached):
        Ledger(store, "llm", RUN, run="x").take(usd=1.0)
    for day, run in enumerate("vwuvt"):  # by a clock that goes backwards
        with time_machine.travel(f"2026-11-{30 - day}T00:00Z", tick=False):
            Ledger(store, "llm", run=run).take(usd=1.0)
    assert {run: usd(store, "run", run) for run in "tuvwx"} == {"t": 1.0, "u": 1.0, "v": 2.0, "w": 0.0, "x": 0.0}


def test_a_ledger_of_an_older_release_forgets_the_runs_of_the_oldest_days_and_can_be_read_by_it(store, monkeypatch):
    monkeypatch.setattr(spending, "REMEMBERED_RUNS", 3)
    runs = {run: {"day": f"2026-11-{day}", "usd": 1.0} for run, day in zip("abcd", (29, 28, 27, 26), strict=True)}
    store.replace(key_of("llm"), canonical_json({"days": {}, "next_at": 0, "runs": runs}))
    with time_machine.travel("2026-11-30", tick=False):
        Ledger(store, "llm", RUN, run="e").take(usd=1.0)
        with pytest.raises(LimitReached):
            Ledger(store, "llm", RUN, run="a").take(usd=1.0)
    days = {run: counts["day"] for run, counts in read_state(store, key_of("llm"))["runs"].items()}
    assert days == {"a": "2026-11-29", "b": "2026-11-28", "e": "2026-11-30"}
