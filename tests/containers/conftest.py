"""Tests that need a Docker engine and the images: collected only by ``pytest -m containers``, as make test-containers.

Where no engine answers they are skipped, and in CI they fail.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks import __version__
from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.site import URL_LIST, build_site
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from tests.containers.stack import Stack, written
from tests.ports import free_ports

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUTSIDE = f"""
LLM={HERE / "llm.py"}
OPENAI_BASE_URL=http://127.0.0.1:18744/v1
LLM_PRICE_IN=1
LLM_PRICE_OUT=1
FOUNDRY_SOURCE=http://127.0.0.1:18743/{URL_LIST}
FOUNDRY_ALLOW_HOSTS=127.0.0.1:18743
"""
DASHED = ("ADMIN_PASSWORD", "POSTGRES_PASSWORD", "API_SECRET_KEY", "JWT_SECRET", "S3_SECRET_KEY", "S3_ADMIN_SECRET")
BUILT = ("airflow", "cpu", "seaweedfs", "dockerproxy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--pictures docs/images`` renews the screenshots of the documentation."""
    parser.addoption("--pictures", type=Path, help="folder for pictures of what the browser shows")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These tests only where they are asked for."""
    asked = config.option.markexpr == "containers"
    return None if asked or HERE not in (collection_path, *collection_path.parents) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.containers)


def docker(*arguments: str, **options: object) -> str:
    """Standard output of a ``docker`` command that ends well."""
    ran = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 0, f"docker {' '.join(arguments)}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    return ran.stdout


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Docker engine answers; run make test-containers")


def weights_for(stack: Stack, *models: str) -> Path:
    """The cache, with these models in it and in the stack's volume."""
    cache = settings().cache
    for model in models:
        fetch(get(model), cache, "offline")
    copy = f"mkdir -p /to/models && cd /from && cp -r {' '.join(models)} /to/models && chown -R 50000:50000 /to/models"
    mounts = ("-v", f"{cache}/models:/from:ro", "-v", f"{stack.project}_cache:/to")
    docker("run", "--rm", "--user", "0", *mounts, "--entrypoint", "sh", named("cpu"), "-c", copy)
    return cache


def named(image: str) -> str:
    return f"retriever-foundry/{image}:{__version__}"


@pytest.fixture(scope="session", params=BUILT)
def image(request: pytest.FixtureRequest) -> dict:
    """What the engine knows of one image."""
    return json.loads(docker("image", "inspect", named(request.param)))[0]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A website of three sample PDFs, two of them hard to read."""
    sample, folder = tmp_path_factory.mktemp("sample"), tmp_path_factory.mktemp("site")
    for name in ("b-lightning", "a-19", "a-22"):
        for file in (domain_folder() / "sample").glob(f"{name}*.md"):
            shutil.copy(file, sample)
    build_site(sample, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture(scope="session")
def env_file(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Path:
    """Settings of a stack of the tests' own: free ports, new secrets, each with a dash first, as one in 64 has."""
    path = tmp_path_factory.mktemp("stack") / ".env"
    page, s3 = free_ports(2)
    chosen = "".join(f"{name}=-{secrets.token_urlsafe(24)}\n" for name in DASHED)
    path.write_text(f"PORT={page}\nS3_PORT={s3}\nSITE={site}{OUTSIDE}{chosen}", "utf-8")
    return written(path)


@pytest.fixture(scope="session")
def stack(env_file: Path) -> Iterator[Stack]:
    """docker-compose.yml with the site of ``site.yml`` beside it, healthy."""
    found = Stack(f"foundry-test-{uuid.uuid4().hex[:8]}", env_file, HERE / "site.yml")
    try:
        found.up()
        yield found
    finally:
        found.down()
