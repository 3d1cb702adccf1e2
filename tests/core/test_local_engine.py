"""Processes that somebody ends, and errors that cross from one to another."""

from __future__ import annotations

import os
import pickle
import signal
import time
from functools import partial

import pytest

from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.paid.endpoint.errors import Silent
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store.s3 import S3Store


def own_id(_: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def nobody_answers(_: int) -> None:
    raise Silent("llm.example", "cannot be reached", 8)


def connects(store: S3Store, _: int) -> tuple[int, bool]:
    held = store.bucket._client[0] == os.getpid()
    store.exists("refs/x")
    return os.getpid(), not held


def test_workers_that_are_killed_between_two_rounds_are_told_as_those_within_one():
    with Local(2) as engine:
        for worker in {found for _, found in engine.each(own_id, range(4))}:
            os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)
        with pytest.raises(TransientError, match="a worker process was ended from outside"):
            list(engine.each(own_id, range(4)))


def test_an_endpoint_that_is_down_is_told_by_a_worker_too():
    with (
        Local(2) as engine,
        pytest.raises(Silent, match="llm.example cannot be reached in all of 8 attempts") as caught,
    ):
        list(engine.each(nobody_answers, range(2)))
    assert caught.value.detail == "cannot be reached in 8 attempts"


def test_a_worker_connects_to_a_bucket_once_for_all_its_work(s3):
    with Local(2) as engine:
        found = [told for _, told in engine.each(partial(connects, s3), range(12))]
    assert sum(fresh for _, fresh in found) == len({process for process, _ in found})


def test_a_store_that_is_sent_keeps_copies_where_the_settings_of_its_receiver_say(s3, tmp_path, monkeypatch):
    sent = pickle.dumps(s3)
    monkeypatch.setenv("FOUNDRY_STORE_CACHE", str(tmp_path / "there"))
    monkeypatch.setenv("FOUNDRY_SCRATCH", str(tmp_path / "volume"))
    settings.cache_clear()
    there, again = (pickle.loads(sent) for _ in range(2))
    assert there is again and there.folder == tmp_path / "there" / s3.folder.name
    assert there.scratches.parents[1] == tmp_path / "volume"
