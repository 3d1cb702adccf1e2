"""A store with the toy chain in it, built once; tests that change it copy it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.store import LocalStore

sys.path.insert(0, str(Path(__file__).parent))
import toy  # noqa: E402


def answer(store: LocalStore, response_id: str, tokens: int, cost_usd: float) -> None:
    """A paid answer as the response store keeps it."""
    record = {
        "api": "completions",
        "request": {"model": "small-llm", "prompt": "?"},
        "response": {
            "text": "!",
            "finish_reason": "stop",
            "usage": {"prompt_tokens": tokens, "completion_tokens": tokens // 10},
            "model": "",
            "created": 1_700_000_000,
        },
        "cost_usd": cost_usd,
    }
    store.create(f"responses/{response_id[:2]}/{response_id}.json", canonical_json(record))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    """Read-only: the whole chain over a document, its twin, a bad one, and one that no model agrees on."""
    store = LocalStore(tmp_path_factory.mktemp("built"))
    answer(store, "1" * 64, 1000, 0.001)
    answer(store, "2" * 64, 500, 0.002)
    toy.chain(store, "a", "twin", "bad", "c")
    with pytest.raises(ValueError, match="no such luck"):
        toy.make(store, toy.toy_broken)
    return store


@pytest.fixture
def store(built: LocalStore, tmp_path: Path) -> LocalStore:
    """The same store, to be changed."""
    shutil.copytree(built.root, tmp_path / "store")
    return LocalStore(tmp_path / "store")
