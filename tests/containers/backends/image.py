"""The image ``cpu`` with this checkout and the toy steps on top: quick to build, and no package index is asked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from pipeline_tasks import __version__

ROOT = Path(__file__).parents[3]
BASE = f"retriever-foundry/cpu:{__version__}"
TAG = "retriever-foundry/toys:test"
DOCKERFILE = f"FROM {BASE}\nCOPY code /opt/code\nENV PYTHONPATH=/opt/code\n"


def build(client: docker.DockerClient) -> str:
    """Its name; built anew only where something in it has changed."""
    try:
        client.images.get(BASE)
    except ImageNotFound:
        pytest.fail(f"there is no image {BASE}; `make test-containers` builds it first")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        recipe = tarfile.TarInfo("Dockerfile")
        recipe.size = len(DOCKERFILE)
        tar.addfile(recipe, io.BytesIO(DOCKERFILE.encode()))
        for source in ("pipeline_tasks", "sql", "tests/dags/toys"):
            tar.add(ROOT / source, f"code/{Path(source).name}", filter=_plain)
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=TAG, rm=True)
    return TAG


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in member.name:
        return None
    member.uid = member.gid = member.mtime = 0
    return member
