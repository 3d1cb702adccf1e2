"""What the images install is what pyproject.toml asks for, at the versions of constraints.txt, with hashes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.containers.stack import composer

ROOT = Path(__file__).parents[2]
LOCKS = {
    "containers/airflow/requirements.txt": ("airflow", "server", "docker", "kubernetes", "s3", "remote-logs"),
    "containers/steps/requirements.txt": ("steps", "s3", "ray"),
    "containers/steps/requirements-llm.txt": ("llm", "s3"),
}
PINNED = re.compile(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s\\;]+)", re.MULTILINE)


def pinned(name: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / name).read_text("utf-8")))


@pytest.mark.parametrize("name", LOCKS)
def test_an_image_has_what_its_extras_ask_for_at_the_versions_of_the_constraints(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + [need for e in LOCKS[name] for need in project["optional-dependencies"][e]]
    direct = {re.match(r"[A-Za-z0-9._-]+", need)[0].lower() for need in wanted} - {"torch"}
    locked, constraints = pinned(name), pinned("constraints.txt")
    assert direct - set(locked) == set(), "run containers/lock"
    assert {one: v for one, v in locked.items() if constraints.get(one) != v} == {}, "run containers/lock"
    assert "torch" not in locked


@pytest.mark.parametrize("name", [*LOCKS, "containers/seaweedfs/requirements.txt", "containers/tools.txt"])
def test_every_package_has_hashes_and_no_place(name):
    text = (ROOT / name).read_text("utf-8")
    blocks = re.split(r"\n(?=[a-z])", text.split("\n", 1)[1])
    assert blocks and all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?://|file:|--index|--find-links|^-e|^/", text, re.MULTILINE)


def test_every_base_image_has_a_line():
    lines = (ROOT / "images.lock").read_text("utf-8").split()
    assert [line.split("@")[0] for line in lines] == ["python:3.11-slim", "postgres:17", "vllm/vllm-openai:v0.11.0"]
    assert all(re.fullmatch(r"[a-z0-9./:-]+(@sha256:[0-9a-f]{64})?", line) for line in lines)


@pytest.mark.parametrize(("host", "socket"), [("unix:///run/user/1/docker.sock", "/run/user/1/docker.sock"), ("", "")])
def test_the_engine_of_this_machine_is_mounted(tmp_path, monkeypatch, host, socket):
    monkeypatch.setenv("DOCKER_HOST", host)
    path = tmp_path / ".env"
    subprocess.run([sys.executable, "containers/write_env.py", str(path)], cwd=ROOT, check=True)
    assert f"DOCKER_SOCKET={socket or '/var/run/docker.sock'}" in path.read_text().splitlines()


def test_an_engine_elsewhere_is_refused_unless_a_socket_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@host")
    path = tmp_path / ".env"
    command = [sys.executable, "containers/write_env.py", str(path)]
    told = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert told.returncode and "DOCKER_HOST=ssh://me@host is no socket of this machine" in told.stderr
    assert not path.exists()
    path.write_text("DOCKER_SOCKET=/my.sock\nDOCKER_GID=7\n")
    subprocess.run(command, cwd=ROOT, check=True)
    assert "DOCKER_SOCKET=/my.sock" in path.read_text().splitlines()


def test_what_an_env_file_says_last_is_not_run_into_what_is_added(tmp_path):
    path = tmp_path / ".env"
    path.write_text("PORT=9090\nLLM_MODEL=my-model")
    subprocess.run([sys.executable, "containers/write_env.py", str(path)], cwd=ROOT, check=True)
    lines = path.read_text().splitlines()
    assert (
        "LLM_MODEL=my-model" in lines and "PORT=9090" in lines and sum(line.startswith("PORT=") for line in lines) == 1
    )


@pytest.mark.parametrize("form", ["export {}=mine", "{} = mine", "  {}=mine", "\texport  {}\t=mine", "{}: mine"])
def test_a_secret_that_compose_reads_in_any_form_is_not_written_anew(tmp_path, form):
    path, file = tmp_path / ".env", tmp_path / "compose.yml"
    path.write_text("\n".join(form.format(name) for name in ("ADMIN_PASSWORD", "FOUNDRY_VERSION")))
    subprocess.run([sys.executable, "containers/write_env.py", str(path)], cwd=ROOT, check=True)
    names = re.findall(r"ADMIN_PASSWORD|FOUNDRY_VERSION", path.read_text())
    assert sorted(names) == ["ADMIN_PASSWORD", "FOUNDRY_VERSION"] and "FOUNDRY_VERSION=0" in path.read_text()
    file.write_text('services: {one: {image: "${ADMIN_PASSWORD}"}}')
    command = [*composer(), "--env-file", str(path), "--file", str(file), "config", "--images"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "mine"
