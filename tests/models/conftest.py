import pytest

from pipeline_tasks.core.settings import settings


@pytest.fixture
def given(monkeypatch):
    """Sets settings for one test."""

    def set_to(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"FOUNDRY_{name.upper()}", value)
        settings.cache_clear()

    return set_to
