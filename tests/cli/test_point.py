"""What ``foundry run`` and ``foundry point`` say of ``latest``."""

import re


def last(done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_run_that_finds_its_version_says_which_is_latest_and_how_to_move_it(toys):
    old = last(toys("run", "count", "--set", "parts=1"))
    new = last(toys("run", "count", "--set", "parts=2"))
    again = toys("run", "count", "--set", "parts=1")
    assert last(again) == old
    (command,) = re.findall(r"latest of numbers stays \w+; `foundry (.*)` moves it", again.stderr)
    moved = toys(*command.split())
    assert last(moved) == old
    assert f"numbers@latest is {old[8:]} (was {new[8:]})" in moved.stderr
    assert "moves it" not in toys("run", "count", "--set", "parts=1").stderr
    refused = toys("point", "numbers@absent")
    assert refused.returncode == 2 and "not in the store" in refused.stderr
