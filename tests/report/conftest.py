"""A store to report on, built once and only read."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.page import page
from pipeline_tasks.report.run_report import run_report
from tests.report import made


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalStore, Ref, Ref]:
    """The store, the model's version before, and its last one."""
    store = LocalStore(tmp_path_factory.mktemp("store"))
    return store, *made.build(store)


@pytest.fixture(scope="session")
def html(built) -> str:
    """The page of the last version."""
    return page(run_report(built[0]))
