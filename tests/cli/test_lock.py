"""``foundry lock`` on a copy of the checkout, in this process: only the files that it reads are other ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline_tasks.cli.lock import lock_command
from pipeline_tasks.core.codelock import closure, lock
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step

ROOT = Path(__file__).parents[2]
WRITERS, BEGIN = "pipeline_tasks/synthesis/prompting/writers.py", "from __future__ import annotations\n"
NEEDS, PAIRS, COMBINED = (int(get_step(name).version) for name in ("write_needs", "write_pairs", "combine_pairs"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose lock is in order."""
    shutil.copytree(
        ROOT / "pipeline_tasks", tmp_path / "pipeline_tasks", ignore=shutil.ignore_patterns("*.pyc", "sample")
    )
    shutil.copytree(ROOT / "sql", tmp_path / "sql")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(closure, "ROOT", tmp_path)
    monkeypatch.setattr(lock, "LOCK", tmp_path / "steps.lock")
    lock_command(everything=True)
    return tmp_path


@pytest.fixture
def edit(checkout: Path) -> Callable[[str, str, str], None]:
    """Replaces a text in a file of the checkout."""

    def change(name: str, before: str, after: str) -> None:
        path = checkout / name
        text = path.read_text("utf-8")
        assert before in text
        path.write_text(text.replace(before, after), "utf-8")

    return change


def lines(checkout: Path) -> list[str]:
    return (checkout / "steps.lock").read_text("utf-8").splitlines()


def refused(*names: str) -> str:
    with pytest.raises(InputError) as told:
        lock_command(list(names))
    return str(told.value)


def test_writers_that_change_their_rules_ask_what_becomes_of_old_pairs(checkout, edit):
    before = lines(checkout)
    edit(WRITERS, BEGIN, f"{BEGIN}\nCHANGED = 1\n")
    told = refused()
    assert f"write_needs v{NEEDS}: what it runs has changed: {WRITERS}. " in told
    assert "raise version= in @step" in told and "`foundry lock write_pairs`" in told
    assert "mine_negatives" not in told and lines(checkout) == before
    assert "write_needs" in refused("write_pairs")
    lock_command(["write_needs", "write_pairs"])
    changed = set(lines(checkout)) ^ set(before)
    assert {line.split()[0] for line in changed} == {WRITERS} and len(changed) == 2
    lock_command()


def test_a_raised_version_is_an_answer_and_a_lowered_one_is_not(checkout, edit):
    before = f"step:write_needs {NEEDS}\nstep:write_pairs {PAIRS}"
    edit("steps.lock", before, f"step:write_needs {NEEDS - 1}\nstep:write_pairs {PAIRS + 1}")
    edit(WRITERS, BEGIN, f"{BEGIN}\nCHANGED = 1\n")
    told = refused()
    assert "write_needs" not in told
    assert f"write_pairs: version='{PAIRS}' is below '{PAIRS + 1}' in steps.lock" in told
    lock_command(["write_pairs"])
    assert set(before.splitlines()) <= set(lines(checkout))


def test_a_new_step_and_one_that_is_gone_need_no_word(checkout, edit):
    wanted = lines(checkout)
    edit("steps.lock", f"step:write_pairs {PAIRS}", "step:gone 1")
    lock_command()
    assert lines(checkout) == wanted


def test_a_script_and_a_row_schema_are_code_too(checkout, edit, monkeypatch):
    edit("sql/combine_pairs.sql", "SELECT", "SELECT DISTINCT")
    assert f"combine_pairs v{COMBINED}: what it runs has changed: sql/combine_pairs.sql." in refused()
    edit("steps.lock", "rows:triplets ", "rows:triplets 0")
    assert "rows:triplets" in refused("combine_pairs")


def test_a_comment_asks_nothing(checkout, edit):
    before = lines(checkout)
    edit(WRITERS, BEGIN, f"{BEGIN}\n# Nothing new.\n")
    edit("sql/combine_pairs.sql", "SELECT", "-- Nothing new.\nSELECT")
    lock_command()
    assert lines(checkout) == before


def test_a_lock_with_two_sides_of_a_merge_in_it_says_how_to_write_it_anew(checkout, edit):
    wanted = lines(checkout)
    edit(
        "steps.lock",
        f"step:write_pairs {PAIRS}",
        f"<<<<<<< ours\nstep:write_pairs {PAIRS}\n=======\nstep:write_pairs {PAIRS + 1}\n>>>>>>> theirs",
    )
    assert "`foundry lock --all` writes it anew" in refused()
    lock_command(everything=True)
    assert lines(checkout) == wanted


def test_an_unknown_step_and_an_installation_are_refused(checkout):
    assert "did you mean 'write_pairs'" in refused("write_pair")
    (checkout / "pyproject.toml").unlink()
    assert "is no checkout" in refused()
