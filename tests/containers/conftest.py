"""Tests that need a Docker engine and the images: collected only by ``pytest -m containers``, as make test-containers.

Where no engine answers they are skipped, and in CI they fail.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipeline_tasks import __version__

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILT = ("airflow", "cpu", "seaweedfs")


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


def named(image: str) -> str:
    return f"retriever-foundry/{image}:{__version__}"


@pytest.fixture(scope="session", params=BUILT)
def image(request: pytest.FixtureRequest) -> dict:
    """What the engine knows of one image."""
    return json.loads(docker("image", "inspect", named(request.param)))[0]
