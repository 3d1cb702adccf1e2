from pathlib import Path

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get


@pytest.fixture(scope="session")
def fetched():
    """Name of a model -> its folder in this machine's cache, fetched on first use."""
    return lambda name: fetch(get(name), settings().cache)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture(params=["pymupdf", "pypdfium2"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn: what holds for one holds for the other."""
    pytest.importorskip(request.param)
    return request.param
