import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline_tasks.core.response_store import ResponseStore
from pipeline_tasks.core.store import LocalStore

NAME = "ab" + "0" * 62


def claim_of(pid, until, host=None):
    return json.dumps({"host": host or socket.gethostname(), "pid": pid, "until": until}).encode()


def store_with(tmp_path, claim):
    store = LocalStore(tmp_path)
    store.create(f"responses/ab/{NAME}.claim-0", claim)
    return ResponseStore(store)


def test_the_first_record_stays(tmp_path):
    responses = ResponseStore(LocalStore(tmp_path))
    assert responses.read(NAME) is None
    assert responses.write(NAME, {"n": 1}) == {"n": 1}
    assert responses.write(NAME, {"n": 2}) == {"n": 1}
    assert responses.read(NAME) == {"n": 1}
    assert (tmp_path / "responses" / "ab" / f"{NAME}.json").is_file()


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


def test_a_living_process_holds_its_claim(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    responses = store_with(tmp_path, claim_of(child.pid, time.time() + 600))
    assert not responses.claim(NAME, for_s=600)
    child.kill()
    child.communicate()
    assert responses.claim(NAME, for_s=600)


def test_a_claim_ends(tmp_path):
    assert store_with(tmp_path, claim_of(1, time.time() - 1, host="elsewhere")).claim(NAME, for_s=600)


def test_another_machines_claim_stands_until_its_end(tmp_path):
    assert not store_with(tmp_path, claim_of(os.getpid(), time.time() + 600, host="elsewhere")).claim(NAME, for_s=600)


def test_threads_that_want_the_same_answer_buy_it_once(tmp_path):
    responses, bought = ResponseStore(LocalStore(tmp_path)), []

    def buy():
        bought.append(1)
        return {"n": len(bought)}

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: responses.get_or_buy(NAME, buy), range(32)))
    assert bought == [1]
    assert [record for record, _ in got] == [{"n": 1}] * 32
    assert sorted(cached for _, cached in got) == [False] + [True] * 31


def test_a_failed_purchase_stores_nothing_and_can_be_made_again(tmp_path):
    responses = ResponseStore(LocalStore(tmp_path))
    with pytest.raises(ZeroDivisionError):
        responses.get_or_buy(NAME, lambda: {"n": 1 / 0}, claim_s=600)
    assert responses.read(NAME) is None
    assert responses.get_or_buy(NAME, lambda: {"n": 1}, claim_s=600) == ({"n": 1}, False)


def test_a_claim_of_another_process_is_waited_for(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        responses = store_with(tmp_path, claim_of(child.pid, time.time() + 600))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(responses.get_or_buy, NAME, lambda: {"n": 2}, claim_s=600)
            assert ResponseStore(LocalStore(tmp_path)).write(NAME, {"n": 1}) == {"n": 1}
            assert waiting.result() == ({"n": 1}, True)
        child.kill()
