import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.paid import response_store
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.store import LocalStore

NAME = "ab" + "0" * 62


BUYER = """
import sys
from pathlib import Path
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.store import LocalStore

def buy(keep):
    print("asking", flush=True)
    return keep({"n": input()})

ResponseStore(LocalStore(Path(sys.argv[1]))).get_or_buy(sys.argv[2], buy, alone=True)
"""


def buyer(folder):
    """A process that asks for the answer, and gets the line that it is sent."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUYER, str(folder), NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "asking\n"
    return process


def test_the_first_record_stays(tmp_path):
    responses = ResponseStore(LocalStore(tmp_path))
    assert responses.read(NAME) is None
    assert responses.write(NAME, {"n": 1}) == {"n": 1}
    assert responses.write(NAME, {"n": 2}) == {"n": 1}
    assert responses.read(NAME) == {"n": 1}
    assert (tmp_path / "responses" / "ab" / f"{NAME}.json").is_file()


@pytest.mark.parametrize("torn", [b"", b"[]", b'{"n"'])
def test_an_answer_that_a_power_cut_left_torn_is_asked_for_again(tmp_path, torn):
    store = LocalStore(tmp_path)
    store.create(f"responses/ab/{NAME}.json", torn)
    assert ResponseStore(store).get_or_buy(NAME, lambda keep: keep({"n": 1})) == ({"n": 1}, False)
    assert ResponseStore(store).read(NAME) == {"n": 1}


def test_one_of_many_requests_has_its_answer_and_a_broken_one_is_none(tmp_path):
    store = LocalStore(tmp_path)
    others = [f"cd{n:062}" for n in range(3)]
    assert not ResponseStore(store).has_any([NAME, *others])
    store.create(f"responses/ab/{NAME}.json", b"")
    assert not ResponseStore(store).has_any([NAME, *others])
    ResponseStore(store).write(others[1], {"n": 1})
    assert ResponseStore(store).has_any([NAME, *others])


def test_many_writers_agree(tmp_path):
    got = []
    threads = [
        threading.Thread(target=lambda n=n: got.append(ResponseStore(LocalStore(tmp_path)).write(NAME, {"n": n})["n"]))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and len(set(got)) == 1


def test_threads_that_want_the_same_answer_buy_it_once(tmp_path):
    responses, bought = ResponseStore(LocalStore(tmp_path)), []

    def buy(keep):
        bought.append(1)
        return keep({"n": len(bought)})

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: responses.get_or_buy(NAME, buy), range(32)))
    assert bought == [1]
    assert [record for record, _ in got] == [{"n": 1}] * 32
    assert sorted(cached for _, cached in got) == [False] + [True] * 31


def test_a_failed_purchase_stores_nothing_and_can_be_made_again(tmp_path):
    responses = ResponseStore(LocalStore(tmp_path))
    with pytest.raises(ZeroDivisionError):
        responses.get_or_buy(NAME, lambda keep: keep({"n": 1 / 0}), alone=True)
    assert responses.read(NAME) is None
    assert responses.get_or_buy(NAME, lambda keep: keep({"n": 1}), alone=True) == ({"n": 1}, False)


@pytest.mark.parametrize(("killed", "got"), [(False, ({"n": "1"}, True)), (True, ({"n": 2}, False))])
def test_a_process_that_asks_is_waited_for_and_one_that_was_killed_is_not(tmp_path, killed, got):
    with buyer(tmp_path) as child, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            ResponseStore(LocalStore(tmp_path)).get_or_buy, NAME, lambda keep: keep({"n": 2}), alone=True
        )
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        if killed:
            child.kill()
        else:
            print("1", file=child.stdin, flush=True)
        assert waiting.result(30) == got


class Away(LocalStore):
    """A store that takes nothing at first."""

    away = 2

    def create(self, key, data):
        if self.away:
            self.away -= 1
            raise TransientError("the server cannot be reached")
        return super().create(key, data)


def test_what_was_bought_is_kept_while_the_store_is_away(tmp_path, monkeypatch):
    monkeypatch.setattr(response_store, "PATIENCE_S", (0.0, 0.0))
    bought = []
    responses = ResponseStore(Away(tmp_path))
    assert responses.get_or_buy(NAME, lambda keep: bought.append(1) or keep({"n": 1})) == ({"n": 1}, False)
    assert responses.get_or_buy(NAME, lambda keep: bought.append(1) or keep({"n": 2})) == ({"n": 1}, True)
    assert bought == [1]
