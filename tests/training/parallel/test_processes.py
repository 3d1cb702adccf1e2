"""On which device a training runs that needs no other processes; several: test_peers.py and test_nodes.py."""

from __future__ import annotations

import pytest
import torch

from pipeline_tasks.training.parallel.peers import ALONE
from pipeline_tasks.training.parallel.processes import run_on_devices


@pytest.fixture
def current(monkeypatch) -> list[int]:
    """The GPU that ``cuda`` stands for, on a machine that says it has two."""
    now = [0]

    def exchange(number: int) -> int:
        before, now[0] = now[0], number
        return before

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_exchange_device", exchange)
    monkeypatch.setattr(torch.cuda, "_maybe_exchange_device", exchange)
    return now


@pytest.mark.parametrize(("devices", "at_work"), [(["cuda:1"], 1), (["cuda:0"], 0), (["cpu"], 0), ([], 0)])
def test_a_training_on_one_gpu_is_on_the_one_that_is_named(current, devices, at_work):
    found = run_on_devices(lambda peers, tell: (peers, current[0]), devices, print)
    assert found == (ALONE, at_work)
    assert current == [0]
