from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from tests.report import made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = LocalStore(tmp_path_factory.mktemp("report"))
    made.build(store)
    return store.root


def report(root: Path, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "report", *args]
    environment = os.environ | {"FOUNDRY_STORE": str(root), "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_page_is_written_and_its_place_is_printed(root, tmp_path):
    told = report(root, tmp_path, "--all", "--to", "pages/all.html")
    assert (told.returncode, told.stdout.strip()) == (0, "pages/all.html"), told.stderr
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["all.html"]
    assert (tmp_path / "pages/all.html").read_text("utf-8").startswith("<!doctype html>")


def test_markdown_is_printed(root, tmp_path):
    told = report(root, tmp_path, "--markdown")
    assert told.stdout.startswith("# 33m/finetune-0.75\n"), told.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_version_and_all_of_them_are_two_questions(root, tmp_path):
    told = report(root, tmp_path, "eval/judged", "--all")
    assert told.returncode == 2 and "leave out eval/judged" in told.stderr
