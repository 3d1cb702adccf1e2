"""The images as they are shipped: who runs in them, what they say of themselves, and what must not be in them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

import pytest

from pipeline_tasks import __version__
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.store import LocalStore
from tests.containers.conftest import ROOT, docker, named

SECRET = re.compile(
    rb"AKIA[0-9A-Z]{16}|-----BEGIN (?:RSA |EC |OPENSSH |)PRIVATE KEY-----\n[A-Za-z0-9+/=]{20}|gh[ps]_[A-Za-z0-9]{36}"
    rb"|sk-[A-Za-z0-9_-]{32}|(?i:password|secret|token|api_key)=[A-Za-z0-9+/_-]{16}"
)
FORBIDDEN = re.compile(r"(^|/)(\.env[^/]*|\.git|\.foundry|\.netrc|\.pypirc|\.aws|id_rsa)(/|$)")
OURS = (
    "opt/plugins",
    "opt/dags",
    "opt/init",
    "opt/dockerproxy",
    "home",
    "root",
    "var/lib/foundry",
    "var/cache/foundry",
    "tmp",
    "src",
)
MAIN = ("opt/foundry/bin/foundry", "usr/local/bin/weed", "opt/dockerproxy/serve.py")
LIMITED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


def revision() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_nobody_is_root(image):
    assert image["Config"]["User"] == "50000:50000"
    told = docker("run", "--rm", "--entrypoint", "id", image["RepoTags"][0])
    assert "uid=50000(foundry) gid=50000(foundry)" in told
    assert "(root)" not in told


def test_the_labels_name_the_code(image):
    labels = image["Config"]["Labels"]
    name = "org.opencontainers.image"
    assert labels[f"{name}.version"] == __version__
    assert labels[f"{name}.licenses"] == "Apache-2.0"
    assert labels[f"{name}.revision"] == revision()


def test_the_code_cannot_be_changed_from_inside(image):
    writable = "find /opt /usr/local -xdev -writable -not -type l 2>/dev/null | grep -v '^/opt/airflow' | head -5"
    assert docker("run", "--rm", "--entrypoint", "sh", image["RepoTags"][0], "-c", writable) == ""


def layers(name: str) -> Iterator[tuple[str, bytes]]:
    """Path and beginning of every file of every layer, also of files that a later layer hides."""
    with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as saved:
        with tarfile.open(fileobj=saved.stdout, mode="r|") as image:
            for entry in image:
                yield from files_of(image.extractfile(entry) or BytesIO())
    assert saved.returncode == 0


def files_of(layer: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    try:
        files = tarfile.open(fileobj=layer, mode="r|*")
    except tarfile.ReadError:  # what tells of the image is no layer
        return
    with files:
        for member in files:
            path = member.name.removeprefix("./")
            wanted = member.isfile() and path.startswith(OURS)
            yield path, files.extractfile(member).read(1 << 20) if wanted else b""


def test_no_secret_is_in_any_layer_or_in_the_history(image):
    name = image["RepoTags"][0]
    names = []
    for path, content in layers(name):
        names.append(path)
        assert not SECRET.search(content), path
    assert any(path.startswith(MAIN) for path in names)
    assert [path for path in names if FORBIDDEN.search(path)] == []
    told = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", name) + json.dumps(image["Config"])
    assert not SECRET.search(told.encode())


def test_airflow_has_no_torch_and_every_dag_parses_on_a_read_only_root():
    script = (
        "import importlib.util as u, json; from airflow.dag_processing.dagbag import DagBag; bag = DagBag('/opt/dags');"
        "print(json.dumps([u.find_spec('torch') is None, bag.import_errors, sorted(bag.dags)]))"
    )
    home = ("--tmpfs", "/opt/airflow:uid=50000,gid=50000")
    said = docker("run", "--rm", "--network", "none", *LIMITED, *home, named("airflow"), "python", "-c", script)
    no_torch, errors, dags = json.loads(said.strip().splitlines()[-1])
    assert no_torch
    assert errors == {}
    assert {"corpus_refresh", "synthesize_pairs", "build_triplets", "train_retriever"} <= set(dags)


def test_airflow_has_what_the_helm_chart_and_both_engines_need():
    probe = 'exec /entrypoint python -c "import docker, kubernetes, yaml, asyncpg; print(kubernetes.__version__)"'
    assert docker("run", "--rm", "--network", "none", *LIMITED, named("airflow"), "bash", "-c", probe)


def test_cpu_lists_the_steps_on_a_read_only_root():
    assert "mine_negatives" in docker("run", "--rm", "--network", "none", *LIMITED, named("cpu"), "steps")
    whole = ("python", "-c", "import torch, transformers, faiss, onnxruntime, pymupdf, boto3; print(torch.__version__)")
    assert docker("run", "--rm", "--network", "none", *LIMITED, "--entrypoint", whole[0], named("cpu"), *whole[1:])


@pytest.fixture
def shared_store(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.mkdir()
    if os.getuid() == 0:
        os.chown(store, 50000, 50000)
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
    return store


def test_a_step_makes_the_same_version_in_a_container_as_on_the_host(shared_store, tmp_path):
    step = ("run", "plan_searches")
    user = f"{os.getuid()}:{os.getgid()}" if os.getuid() else "50000:50000"
    mount = ("-v", f"{shared_store}:/var/lib/foundry/store", "--user", user)
    inside = docker("run", "--rm", "--network", "none", *LIMITED, *mount, named("cpu"), *step).strip()
    here = os.environ | {"FOUNDRY_STORE": str(tmp_path / "host")}
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", *step]
    outside = subprocess.run(command, env=here, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert inside == outside
    images = query(LocalStore(shared_store), "SELECT DISTINCT image FROM steps").column("image").to_pylist()
    assert images == [f"{named('cpu')}@{revision()}"]
