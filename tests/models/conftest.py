import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get


@pytest.fixture(scope="session")
def fetched():
    """Name of a model -> its folder in this machine's cache, fetched on first use."""
    return lambda name: fetch(get(name), settings().cache)


@pytest.fixture
def given(monkeypatch):
    """Sets settings for one test."""

    def set_to(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"FOUNDRY_{name.upper()}", value)
        settings.cache_clear()

    yield set_to
    settings.cache_clear()
