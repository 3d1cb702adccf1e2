import threading
import time

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.paid.endpoint.pace import Pace, Stopped, backoff_s


def pace(most=8, patience_s=900.0):
    said = []
    return Pace("host", most, patience_s, said.append), said


def test_too_many_halves_what_is_allowed_once_for_all_that_were_open_together():
    one, said = pace()
    began = time.monotonic()
    assert one.too_many(began, 30.0) == 30.0
    assert [one.too_many(began, 30.0) for _ in range(7)] == [0.0] * 7, "one pause, however many hear of it"
    assert one.allowed == 4.0 and len(said) == 1
    one.too_many(time.monotonic(), 30.0)
    assert one.allowed == 2.0


def test_what_was_sure_is_soon_had_again_and_the_rest_is_approached_a_round_at_a_time():
    one, _ = pace(most=16)
    one.too_many(time.monotonic(), 0.5)
    assert one.allowed == 8.0
    for _ in range(4):
        one.answered()
    assert one.allowed == 12.0, "one more with each answer, up to three quarters of what was too many"
    for _ in range(12):
        one.answered()
    assert one.allowed == pytest.approx(13.0, abs=0.1), "one more with a round of answers"


def test_each_round_of_answers_allows_one_more_up_to_the_most():
    one, _ = pace(most=4)
    for _ in range(4):
        one.too_many(time.monotonic(), 0.0)
    assert one.allowed == 1.0
    one.answered()
    assert one.allowed == 2.0
    for _ in range(20):
        one.answered()
    assert one.allowed == 4.0


def test_nobody_begins_while_it_pauses_and_not_more_than_are_allowed():
    one, _ = pace(most=2)
    one.hold(0.3)
    until, open_now, most = time.monotonic() + 0.3, [0], [0]
    early, lock = [], threading.Lock()

    def ask():
        with one.turn() as began:
            with lock:
                early.append(began < until - 0.05)
                open_now[0] += 1
                most[0] = max(most[0], open_now[0])
            time.sleep(0.01)
            with lock:
                open_now[0] -= 1

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert early == [False] * 6 and most[0] <= 2


def test_patience_ends_where_nothing_is_answered_and_begins_anew_with_an_answer():
    one, said = pace(patience_s=50.0)
    one.too_many(time.monotonic(), 30.0)
    one.answered()
    one.too_many(time.monotonic(), 45.0)
    with pytest.raises(TransientError, match="host has too many requests, and asks to wait 51 s.*patience_s=50"):
        one.too_many(time.monotonic(), 51.0)
    assert said == [
        "host has too many requests: waiting 30 s, then 4 at once",
        "host has too many requests: waiting 45 s, then 2 at once",
    ]


def test_who_waits_is_woken_by_the_end():
    one, _ = pace()
    one.hold(600.0)
    ended = []

    def ask():
        try:
            with one.turn():
                ended.append("began")
        except Stopped:
            ended.append("stopped")

    thread = threading.Thread(target=ask)
    thread.start()
    one.stop()
    thread.join(30)
    assert ended == ["stopped"]
    with pytest.raises(Stopped):
        one.rest(600.0)


def test_pauses_double_up_to_half_a_minute_and_differ():
    assert all(0.25 <= backoff_s(1) <= 0.5 and 15.0 <= backoff_s(50) <= 30.0 for _ in range(100))
    assert len({backoff_s(3) for _ in range(10)}) > 1


def test_a_host_that_asks_for_no_pause_gets_one_all_the_same(monkeypatch):
    monkeypatch.setattr("pipeline_tasks.core.paid.endpoint.pace.backoff_s", lambda tries: 10.0**tries)
    one, _ = pace()
    assert [one.too_many(time.monotonic(), 0.0) for _ in range(2)] == [10.0, 100.0], "which grows"
    assert pace()[0].too_many(time.monotonic(), 3.0) == 3.0
