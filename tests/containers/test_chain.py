"""Steps in containers, the store in SeaweedFS, a real scheduler on Postgres: the same versions as on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_tasks.demo.airflow import local_run
from pipeline_tasks.demo.site import URL_LIST, serve_site
from tests.containers.conftest import ROOT, weights_for
from tests.containers.stack import Stack

PORT = 18743
MODEL = "all-minilm-l6-v2"
SOURCE = {"source": f"http://127.0.0.1:{PORT}/{URL_LIST}", "allow_hosts": [f"127.0.0.1:{PORT}"], "delay_s": 0}


@pytest.fixture(scope="module")
def weights(stack: Stack) -> Path:
    """The cache, and the volume with the model that passages are compared by."""
    return weights_for(stack, MODEL)


def folder_with(stack: Stack, made: dict[str, bytes], tmp_path: Path) -> Path:
    """A store in a folder with the stack's downloads, which say when they were fetched, and nothing else."""
    store = tmp_path / "store"
    (downloads,) = (Path(name).stem for name in made if name.startswith("versions/downloads/"))
    sync = [sys.executable, "-m", "pipeline_tasks.cli.main", "sync", "s3://foundry/store", str(store)]
    environment = os.environ | stack.keys | {"FOUNDRY_STORE_CACHE": str(tmp_path / "copies")}
    subprocess.run([*sync, f"downloads@{downloads}"], env=environment, cwd=ROOT, check=True, capture_output=True)
    return store


def test_every_version_is_that_of_processes_with_a_folder(stack: Stack, weights: Path, site: Path, tmp_path: Path):
    run = stack.trigger("corpus_refresh", **SOURCE)
    assert stack.end_of(run) == "success", stack.tasks(run)
    made = stack.manifests()
    assert len(made) == 10, sorted(made)

    store = folder_with(stack, made, tmp_path)
    environment = os.environ | {"FOUNDRY_STORE": str(store), "FOUNDRY_CACHE": str(weights)}
    with serve_site(site, port=PORT):
        assert local_run(tmp_path / "airflow", environment, {"corpus_refresh": SOURCE}) == 0
    assert {str(path.relative_to(store)): path.read_bytes() for path in (store / "versions").rglob("*.json")} == made
