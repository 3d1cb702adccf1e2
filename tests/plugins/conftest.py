from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from airflow_web import Server, hostile_store, start, wait_until_up  # noqa: E402

from tests.ports import free_port  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home, port = tmp_path_factory.mktemp("airflow"), free_port()
    store = hostile_store(tmp_path_factory.mktemp("store"))
    child = start(home, store.root, port)
    try:
        wait_until_up(f"http://127.0.0.1:{port}", child, home / "log.txt")
        yield Server(f"http://127.0.0.1:{port}", home, store)
    finally:
        child.terminate()
        child.wait(30)
