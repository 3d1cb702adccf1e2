"""Figures in seconds are printed where they are sound, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks import measure
from benchmarks.measure import APART, CORES, OTHERS, Clocks, finish, spread, turns, void

SOUND, DISTURBED = {"ours": 0.05, "theirs": APART}, {"ours": 0.05, "theirs": 0.69}
BURN_S = 0.4
BUSY = f"""
import time
while time.process_time() < {BURN_S}:
    pass
print(flush=True)
input()
"""


def last_line(printed: str) -> dict:
    return json.loads(printed.splitlines()[-1])


def test_contestants_take_turns():
    order = []
    assert turns("ab", lambda name: order.append(name) or len(order)) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == ["a", "b"] * 3


def test_a_spread_of_two_turns_is_refused():
    assert spread([1.0, 1.5, 1.2]) == 0.5
    with pytest.raises(ValueError, match="2 turns"):
        spread([1.0, 1.0])


def test_a_quiet_run_is_sound_and_a_disturbed_one_says_by_what():
    assert void(SOUND, OTHERS, CORES) == []
    assert void(SOUND, 0.86, CORES) == ["other processes took 86% of the processors"]
    assert void(DISTURBED, OTHERS, CORES) == ["theirs: turns 69% apart"]
    assert void(SOUND, OTHERS, CORES - 1) == ["1 cores, not 2"]


def test_a_void_run_prints_no_figure(capsys):
    finish({"ratio": 1.5}, DISTURBED)
    found = last_line(capsys.readouterr().out)
    assert "theirs: turns 69% apart" in found["void"]
    assert found["spread"] == DISTURBED
    assert "ratio" not in found


def test_a_sound_run_prints_its_figures_and_its_spread(capsys, monkeypatch):
    monkeypatch.setattr(measure, "OTHERS", 1.0)
    monkeypatch.setattr(measure, "CORES", 1)
    finish({"ratio": 1.5}, SOUND)
    assert last_line(capsys.readouterr().out) == {"ratio": 1.5, "spread": SOUND}


def test_figures_that_hold_no_seconds_are_never_void(capsys):
    finish({"precision": 1.0})
    assert last_line(capsys.readouterr().out) == {"precision": 1.0}


def test_what_a_stranger_burns_is_load_and_what_our_child_burnt_is_not():
    began = Clocks.now()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        running = Clocks.now()
        child.communicate(b"\n")
    ended = Clocks.now()
    assert running.busy - began.busy >= BURN_S / 2
    assert running.own - began.own < BURN_S
    assert ended.own - running.own >= BURN_S
    assert running.others_since(began) > 0


def test_own_work_is_no_load():
    began = Clocks(there=100, busy=50, own=10)
    assert Clocks(there=200, busy=110, own=70).others_since(began) == 0
    assert Clocks(there=200, busy=110, own=60).others_since(began) == 0.1
