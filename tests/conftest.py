"""For all tests: a store, models; a property may take as long as a busy machine needs; how workers share the files."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore

HERE = Path(__file__).parent
LONG = tuple(HERE / name for name in ("e2e", "plugins", "faults", "dags", "retrieval", "training", "corpus"))

hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

gc.disable()  # until all is collected: what the tests import and what they are stays, and is much to look through


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test reads its own settings."""
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """An empty store."""
    return LocalStore(tmp_path / "store")


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], Path]:
    """Name of a model -> its folder in this machine's cache, fetched on first use."""
    from pipeline_tasks.models.fetch import fetch
    from pipeline_tasks.models.registry import get

    return lambda name: fetch(get(name), settings().cache)


def pytest_collection_finish() -> None:
    """Leave what is there by now out of every search for garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: tests wait for disks, servers and processes of their own."""
    return (os.cpu_count() or 1) + 1


class OneServer(LoadFileScheduling):
    """A worker takes a file at a time, and the files that need the same web server together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/plugins" if file.startswith("tests/plugins/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneServer | None:
    """Where files are shared out, as above."""
    return OneServer(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that no worker is left alone with them."""
    places = {folder: place for place, folder in enumerate(LONG)}
    items.sort(key=lambda item: min((places[at] for at in item.path.parents if at in places), default=len(LONG)))
