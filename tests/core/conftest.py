"""Stores of both kinds: what holds for a folder must hold for a bucket. And a Ray cluster, where Ray is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.ray_cluster import one_node, use
from tests.core.toy_steps import make, toy_list
from tests.seaweed import Seaweed, running

CACHE_BYTES = 1 << 30


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """A running S3 server."""
    with running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def s3(seaweed: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """An empty store in a bucket of its own; the environment leads to the server, for child processes too."""
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    address = seaweed.address()
    monkeypatch.setenv("FOUNDRY_STORE", address)
    monkeypatch.setenv("FOUNDRY_STORE_CACHE", str(tmp_path / "caches"))
    settings.cache_clear()
    return S3Store(address, tmp_path / "caches", CACHE_BYTES)


@pytest.fixture
def items(store: LocalStore) -> None:
    """Two items in ``store``."""
    make(store, toy_list, rows={"a": 1, "b": 2})


@pytest.fixture(params=["folder", "bucket"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, of one kind and then of the other."""
    return LocalStore(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("s3")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """That of a Ray cluster of one node."""
    with one_node() as found:
        yield found


@pytest.fixture
def cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps compute on that cluster."""
    use(address, monkeypatch)
