"""Pre-training as a step: its model takes no prompts, since it was trained without."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.training.pretrain import pretrain
from tests.stores import go, put

TEXTS = ["sandbags keep water out", "a tornado takes the roof", "smoke fills the valley", "ash falls on the road"]


@pytest.fixture
def store(tmp_path) -> LocalStore:
    fetch(backbone("33m"), settings().cache)
    store = LocalStore(tmp_path / "store")
    rows = [
        {
            "query_id": f"q{i}",
            "intent": "qa",
            "query": text.split(" ", 1)[1],
            "passage_id": f"p{i}",
            "passage": text,
            "positive_id": f"g{i}",
            "positive": f"about {text}",
            "split": "train",
        }
        for i, text in enumerate(TEXTS)
    ]
    put(store, PAIRS, rows, dataset="mtp")
    return store


def test_a_pre_trained_folder_with_instructions_that_it_never_saw(store, tmp_path):
    made = go(store, pretrain, size="33m", batch_size=8, max_query_length=16, max_passage_length=16, device="cpu")
    version = Version.open(store, made.ref)
    folder = version.lay_out(tmp_path / "out")
    assert layout_of_folder(folder).prefixes == {"passage": ""}
    assert "Neither queries nor passages take a prompt." in (folder / "README.md").read_text()
    shown = version.manifest.params
    assert (shown["learning_rate"], shown["batch_size"], shown["precision"]) == (4e-4, 8, "fp32")
