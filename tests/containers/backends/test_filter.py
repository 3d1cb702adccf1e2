"""The filter before the engine's socket, with a real engine behind it: steps run through it, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import APIError
from foundry_airflow.containers import folders, only_read

from tests.containers.backends.test_docker_backend import of_store, run, wait_for

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.containers]


@pytest.fixture
def filtered(on_docker, image, store_folder, tmp_path_factory, monkeypatch) -> Iterator[docker.DockerClient]:
    """A client of the filter; the back-end is one, too."""
    socket = tmp_path_factory.mktemp("f") / "s"
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    given = {"ENGINE": engine, "LISTEN": str(socket), "IMAGES": image, "NETWORK": "none"}
    given |= {"VOLUMES": ",".join(folders().values()), "SOURCES": ",".join(map(str, only_read()))}
    environment = os.environ | given
    serve = ROOT / "containers" / "dockerproxy" / "serve.py"
    with subprocess.Popen([sys.executable, serve], env=environment, stderr=subprocess.PIPE) as child:
        wait_for(socket.exists)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        yield docker.from_env()
        child.terminate()


def test_steps_run_end_and_are_removed_through_it(filtered, on_docker, store_folder):
    numbers = run("count")
    assert run("square", inputs={"numbers": numbers}).startswith("squares@")
    assert of_store(on_docker, store_folder) == []


def test_it_gives_no_way_to_the_machine(filtered, on_docker, image, tmp_path):
    foreign = on_docker.containers.create(image, entrypoint=["sleep", "60"], environment={"PASSWORD": "hidden"})
    try:
        for asked in (
            lambda: filtered.containers.run(image, "id", privileged=True),
            lambda: filtered.containers.run(image, "id", volumes={"/": {"bind": "/host"}}),
            lambda: filtered.containers.get(foreign.id),
            lambda: filtered.api.remove_container(foreign.id, force=True),
            lambda: filtered.api.start(foreign.id),
            lambda: filtered.containers.list(),
            lambda: filtered.images.pull("debian"),
            lambda: filtered.api.exec_create(foreign.id, "id"),
            lambda: filtered.volumes.list(),
        ):
            with pytest.raises(APIError) as refused:
                asked()
            assert refused.value.status_code == 403
        assert "PASSWORD" in str(on_docker.containers.get(foreign.id).attrs)
    finally:
        foreign.remove(force=True)
