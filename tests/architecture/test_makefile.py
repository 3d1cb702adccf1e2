"""What `make clean` deletes, and what it does not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FREE = '{"api":"completions","cost_usd":0.0,"request":{"prompt":"\\"cost_usd\\":5"}}'


def clean(folder: Path, *told: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "Makefile", folder)
    return subprocess.run(["make", "clean", *told], cwd=folder, capture_output=True, text=True, check=False)


def kept(folder: Path, name: str, text: str) -> Path:
    path = folder / ".foundry/store" / name
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    return path


def test_a_store_whose_answers_cost_nothing_is_forgotten(tmp_path):
    path = kept(tmp_path, "responses/aa/a.json", FREE)
    assert clean(tmp_path).returncode == 0 and not path.exists()
    assert clean(tmp_path).returncode == 0, "nothing is there"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("responses/aa/a.json", FREE.replace("0.0", "0.0021")),
        ("responses/aa/a.json", FREE.replace("0.0", "1e-05")),
        ("spending/openai/2026-01.json", "{}"),
    ],
)
def test_what_was_paid_for_is_forgotten_only_when_told(tmp_path, name, text):
    path = kept(tmp_path, name, text)
    refused = clean(tmp_path)
    assert refused.returncode == 2 and "make clean ANSWERS=gone" in refused.stderr and path.exists()
    assert clean(tmp_path, "ANSWERS=gone").returncode == 0 and not path.exists()
