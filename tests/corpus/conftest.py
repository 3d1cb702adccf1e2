from collections.abc import Callable, Iterator

import pytest

from pipeline_tasks.core.settings import settings


@pytest.fixture(params=["pymupdf", "pypdfium2"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn: what holds for one holds for the other."""
    pytest.importorskip(request.param)
    return request.param


@pytest.fixture(scope="module", autouse=True)
def loopback() -> Iterator[None]:
    """The operator lets crawls ask the servers of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOUNDRY_ALLOW_HOSTS", "127.0.0.1")
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes settings, by their names, until the test is over."""

    def change(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"FOUNDRY_{name.upper()}", value)
        settings.cache_clear()

    return change
