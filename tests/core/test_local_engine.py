"""Processes that somebody ends, and errors that cross from one to another."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pipeline_tasks.core.endpoint.errors import Silent
from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.errors import TransientError


def own_id(_: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def nobody_answers(_: int) -> None:
    raise Silent("llm.example", "cannot be reached", 8)


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
