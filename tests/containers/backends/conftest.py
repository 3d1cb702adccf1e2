"""The toy steps in containers of a real engine; a throwaway Airflow and store."""

import os
from pathlib import Path

import docker
import pytest

from tests.containers.backends.image import build
from tests.dags.conftest import root, store_folder, toys  # noqa: F401

USER = "10001:10001"


@pytest.fixture(scope="session")
def client() -> docker.DockerClient:
    return docker.from_env()


@pytest.fixture(scope="session")
def image(client: docker.DockerClient) -> str:
    return build(client)


@pytest.fixture
def on_docker(image: str, toys: None, store_folder: Path, client, monkeypatch):  # noqa: F811
    """Steps run in containers, as a user who is not root; no container is left over."""
    from foundry_airflow import calls

    from pipeline_tasks.core.settings import settings

    options = {"BACKEND": "docker", "IMAGE_CPU": image, "DOCKER_NETWORK": "none", "POLL_S": "0.2"}
    if os.getuid() == 0:
        options["DOCKER_USER"] = USER
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__FOUNDRY__{name}", value)
    monkeypatch.setenv("FOUNDRY_CACHE", str(store_folder.parent / "cache"))
    monkeypatch.setenv("FOUNDRY_STORE_CACHE", str(store_folder.parent / "cache" / "stores"))
    settings.cache_clear()
    monkeypatch.setattr(calls, "COMMAND", ("python3", "-m", "toys.cli"))
    for folder in (store_folder, store_folder.parent / "cache"):
        folder.mkdir()
        if os.getuid() == 0:
            os.chown(folder, *map(int, USER.split(":")))
    yield client
    for left in client.containers.list(all=True, filters={"label": "app=retriever-foundry"}):
        if any(mount["Source"] == str(store_folder) for mount in left.attrs["Mounts"]):
            left.remove(force=True)
