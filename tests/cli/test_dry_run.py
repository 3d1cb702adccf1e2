"""``foundry run --dry-run`` over the toy steps of tests/dags."""

import pytest


@pytest.fixture
def run(toys):
    """The last line of what ``foundry run`` prints."""

    def last_line(*arguments: str) -> str:
        done = toys("run", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    return last_line


def test_it_says_what_is_new_and_does_nothing(run, tmp_path):
    assert run("count", "--dry-run") == "numbers would be made anew, from: nothing"
    assert not list((tmp_path / "store").rglob("*.json"))
    numbers = run("count", "--set", "parts=3")
    told = run("square", "--dry-run")
    assert told.endswith(f"would be made: 3 of 3 parts, 6 rows of {numbers} are new")
    assert run("square", "--group", "0/3") == "group 0/3"
    assert ": 2 of 3 parts, 4 rows" in run("square", "--dry-run")
    squares = run("square")
    assert told.startswith(squares), "the id is known before the work"
    assert run("square", "--dry-run") == f"{squares} is there: nothing to do"
