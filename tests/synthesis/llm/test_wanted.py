"""A run that asks nobody: what it reads does not grow with the square of the parts, nor one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.estimate import estimate, of_step
from pipeline_tasks.synthesis.llm.wanted import wanted_by
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import put

ASKED = {"llm": "m", "api": "chat", "intents": ["qa"]}
TEXT = "{} volunteers fill sandbags at the fairground before the river rises in spring, and the Lions Club brings soup."


def passages(n: int) -> list[dict[str, Any]]:
    return [{"passage_id": f"p{i}", "doc_id": "d", "text": TEXT.format(i), "split": "train"} for i in range(n)]


class Watched(LocalStore):
    """Notes the manifests that are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.manifests: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.manifests += [key] if key.startswith("versions/") else []
        return super().read(key)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOUNDRY_LLM_PRICE_IN", "FOUNDRY_LLM_PRICE_OUT"):
        monkeypatch.setenv(name, "2")
    settings.cache_clear()


class Slow(LocalStore):
    """Gives an answer once 16 are asked for together."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.together = threading.Barrier(16, timeout=20)

    def read(self, key: str) -> bytes | None:
        if key.startswith("responses/"):
            self.together.wait()
        return super().read(key)


def test_stored_answers_are_read_side_by_side_though_one_is_asked_at_a_time(tmp_path: Path, priced: None) -> None:
    store = Slow(tmp_path)
    put(store, PASSAGES, passages(32))
    assert of_step(store, plan(store, write_needs, ASKED | {"concurrency": 1})).n_requests == 32


@pytest.mark.parametrize(
    "look",
    [
        lambda store: list(wanted_by(store, plan(store, write_needs, ASKED))),
        lambda store: of_step(store, plan(store, write_needs, ASKED)),
        lambda store: estimate(store, ASKED, {}),
    ],
    ids=["wanted_by", "of_step", "estimate"],
)
def test_the_manifest_of_the_input_is_not_read_again_for_each_part(
    tmp_path: Path, priced: None, look: Callable[[LocalStore], Any]
) -> None:
    reads = []
    for n_parts in (2, 7):
        store = Watched(tmp_path / f"{n_parts}")
        put(store, PASSAGES, *([row] for row in passages(n_parts)))
        store.manifests.clear()
        assert look(store)
        reads.append(len(store.manifests))
    assert reads[0] == reads[1]
