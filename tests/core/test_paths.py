"""A path in the home of nobody is the mistake of whoever names it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline_tasks.cli.main import main
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import named_path
from pipeline_tasks.core.paths import absolute_path
from pipeline_tasks.core.settings import settings
from pipeline_tasks.evaluation.mteb_files import similarity_task

NOBODY = "~no-such-user/x"
TOLD = f"'{NOBODY}' is in the home of nobody here: name the whole path"


def test_a_path_is_absolute_whoever_s_home_it_is_in(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert [absolute_path(name) for name in ("~/a", "b", Path("/c"))] == [
        tmp_path / "me" / "a", tmp_path / "b", Path("/c"),
    ]  # fmt: skip


def test_a_file_in_the_home_of_nobody_is_none():
    assert named_path(NOBODY) is None
    with pytest.raises(InputError, match=TOLD):
        similarity_task(NOBODY, "mine")


@pytest.mark.parametrize("name", ["STORE", "CACHE", "DOMAIN", "LLM_PRICES", "SOURCE_ROOTS"])
def test_a_setting_in_the_home_of_nobody_is_refused(monkeypatch, name):
    monkeypatch.setenv(f"FOUNDRY_{name}", NOBODY)
    with pytest.raises(InputError, match=TOLD):
        assert settings().roots


@pytest.mark.parametrize("command", ["new", "check"])
def test_a_domain_in_the_home_of_nobody_is_refused(monkeypatch, capsys, command):
    monkeypatch.setattr(sys, "argv", ["foundry", "domain", command, NOBODY])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and TOLD in capsys.readouterr().err
