"""What `make clean` deletes, and what it does not; what `make up` reads in ``.env``."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("form", ["{}={}", "export {}={}", "  {} = {}", "{}: {}", '{}="{}"', "{}='{}'"])
@pytest.mark.parametrize(("gpus", "profiles", "more"), [(2, "ray,llm-cpu", " gpu llm"), (0, "", "")])
def test_make_up_builds_what_the_env_file_asks_for_in_any_form(tmp_path, form, gpus, profiles, more):
    shutil.copy(ROOT / "Makefile", tmp_path)
    said = [form.format(*one) for one in (("GPUS", gpus), ("COMPOSE_PROFILES", profiles), ("PORT", 80))]
    (tmp_path / ".env").write_text("\n".join(said) + "\n", "utf-8")
    build = tmp_path / "containers" / "build"
    build.parent.mkdir()
    build.write_text('#!/bin/sh\necho "built: $*"\n')
    build.chmod(0o755)
    command = ["make", "-s", "up", "PYTHON=true", "COMPOSE=true", "IMAGES=cpu"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert f"built: cpu{more}\n" in told and re.search(r"http://127\.0\.0\.1:[\"']?80[\"']?:", told)
