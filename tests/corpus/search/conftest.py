from __future__ import annotations

import pytest

from pipeline_tasks.core.settings import settings
from tests.corpus.search.planned import KEY
from tests.corpus.search.standins import StandInBrave


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    """Points the settings at a stand-in."""

    def set_to(name: str, url: str, **variables: str) -> None:
        for variable, value in {f"FOUNDRY_{name}_URL": url, **variables}.items():
            monkeypatch.setenv(variable, value)
        settings.cache_clear()

    return set_to


@pytest.fixture
def brave(use):
    """A paid provider; each answer is five cents."""
    with StandInBrave(key=KEY, n=3) as there:
        use("BRAVE", there.url, BRAVE_API_KEY=KEY, FOUNDRY_BRAVE_PRICE="50")
        yield there
