"""A disk that fills up ends a whole training step with its last checkpoint intact, and the next try goes on from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.training import checkpoints
from pipeline_tasks.training.pretrain import pretrain
from tests.disks import small_disk
from tests.stores import go, put
from tests.training.conftest import passage, query

SMALL = {"size": "22m", "epochs": 2, "batch_size": 2, "checkpoint_every_steps": 1, "device": "cpu"}


def trained(store: LocalStore, backbone: Path) -> Outcome:
    rows = [
        {"query_id": f"q{topic}", "intent": "qa", "query": query(topic), "split": "dev" if topic > 5 else "train"}
        | {"passage_id": f"p{topic}", "passage": passage(topic), "positive": passage(topic, 1)}
        for topic in range(8)
    ]
    put(store, PAIRS, rows, dataset="mtp")
    return go(store, pretrain, backbone=str(backbone), max_query_length=32, max_passage_length=32, **SMALL)


def test_a_training_that_fills_the_disk_goes_on_once_there_is_space(tiny_bert, tmp_path, monkeypatch):
    store, save, saved = LocalStore(tmp_path / "store"), checkpoints.save, []
    whole = trained(store, tiny_bert)
    with small_disk(tmp_path / "small", "16m") as small:
        ballast, other = small / "ballast", LocalStore(small / "store")

        def save_beside_ballast(folder: Path, *state) -> None:
            saved.append(folder)
            if len(saved) == 4:
                with pytest.raises(OSError, match="No space left"):
                    ballast.write_bytes(bytes(16 << 20))
            save(folder, *state)

        monkeypatch.setattr(checkpoints, "save", save_beside_ballast)
        with pytest.raises(TransientError, match=r"no space is left in .*small.*: the disk is full, 0 bytes are free"):
            trained(other, tiny_bert)
        assert [path.name for path in saved[-1].glob("step-*")] == ["step-00000003.pt"]
        ballast.unlink()
        made = trained(other, tiny_bert)
        assert made.counters["resumed_at_step"] == 3 < made.counters["optimiser_steps"] and made.ref == whole.ref
        assert Version.open(other, made.ref).manifest.parts == Version.open(store, whole.ref).manifest.parts
