"""How a training went is asked by SQL, and says the same however often it was interrupted."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_tasks.core import progress
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.curves.curve import curve
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.pretrain import pretrain
from tests.stores import go, put
from tests.training.test_pretrain import SHORT, TEXTS, pair

SMALL = TrainParams(
    epochs=2,
    batch_size=10,
    learning_rate=1e-3,
    warmup_ratio=0.3,
    max_query_length=16,
    max_passage_length=32,
    evals_per_epoch=1,
    checkpoint_every_steps=2,
    device="cpu",
)


def test_a_row_per_step_and_one_for_the_weights_as_they_came(tiny_bert, rows, dev, tmp_path):
    result = train(rows, dev, tiny_bert, SMALL, tmp_path)
    found = curve(result, SMALL).to_pydict()
    assert found["optimiser_step"] == [0, 1, 2, 3, 4, 5, 6]
    assert found["epoch"] == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2])
    assert found["n_rows"] == [0, 8, 16, 24, 32, 40, 48]
    assert found["loss"] == [None, *result.losses]
    assert found["learning_rate"] == pytest.approx([None, 5e-4, 1e-3, 1e-3, 7.5e-4, 5e-4, 2.5e-4])
    assert {step: score for step, score in enumerate(found["dev_score"]) if score is not None} == dict(result.scores)
    assert result.scores[-1][0] == 6


@pytest.mark.parametrize("stop", [1, 3, 6])
def test_an_interrupted_training_has_the_curve_of_one_that_was_not(tiny_bert, rows, dev, tmp_path, stop):
    def interrupt(step: int, steps: int, facts: dict[str, float]) -> None:
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(rows, dev, tiny_bert, SMALL, tmp_path / "stopped", interrupt)
    resumed = train(rows, dev, tiny_bert, SMALL, tmp_path / "stopped")
    whole = train(rows, dev, tiny_bert, SMALL, tmp_path / "whole")
    assert curve(resumed, SMALL).equals(curve(whole, SMALL))


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> LocalStore:
    """Pairs to train on and to choose by."""
    store = LocalStore(tmp_path_factory.mktemp("store"))
    splits = [(text, split) for text in TEXTS for split in ("train", "dev")]
    put(store, PAIRS, [pair(i, text, split) for i, (text, split) in enumerate(splits)], dataset="mtp")
    return store


@pytest.fixture(scope="module")
def made(store) -> dict[int, Outcome]:
    """Models of one epoch and of two."""
    fetch(backbone("22m"), settings().cache)
    return {epochs: go(store, pretrain, size="22m", epochs=epochs, temperature=1, **SHORT) for epochs in (1, 2)}


def test_the_curves_of_all_versions_are_a_table_of_the_lineage(store, made):
    found = query(
        store,
        """SELECT version, count(*) AS n, max(n_rows) AS n_rows,
        round(arg_max(loss, optimiser_step), 4) AS last_loss, round(arg_min(dev_score, optimiser_step), 4) AS start
        FROM training_curves GROUP BY ALL ORDER BY n""",
    )
    assert [list(row.values()) for row in found.to_pylist()] == [
        [
            made[epochs].ref.version,
            1 + epochs,
            epochs * 2 * len(TEXTS),
            made[epochs].counters["last_loss"],
            made[epochs].counters["dev_ndcg_at_10_of_start"],
        ]
        for epochs in (1, 2)
    ]


def test_a_command_writes_them_for_tensorboard(store, made, tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline_tasks.cli.main", "tensorboard", *arguments]
        places = {"FOUNDRY_STORE": str(store.root), "PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(command, env=os.environ | places, capture_output=True, text=True, check=False)

    done = run(str(tmp_path / "logs"), *(str(outcome.ref) for outcome in made.values()))
    assert done.returncode == 0, done.stderr
    for epochs, outcome in made.items():
        (written,) = (tmp_path / "logs" / "model/22m/pretrain" / outcome.ref.version).iterdir()
        assert "tfevents" in written.name
        names = {name: written.read_bytes().count(name) for name in (b"loss", b"learning_rate", b"dev_score")}
        sql = "SELECT count(dev_score) AS n FROM training_curves WHERE version = ?"
        n_scores = query(store, sql, [outcome.ref.version])["n"][0].as_py()
        assert names == {b"loss": epochs, b"learning_rate": epochs, b"dev_score": n_scores}
    refused = run(str(tmp_path / "none"), "mtp")
    assert (refused.returncode, "has no training curve" in refused.stderr) == (2, True)
    assert not (tmp_path / "none").exists()
    assert run(str(tmp_path / "latest")).stdout.startswith("1 curves in")


def test_how_it_goes_is_told_while_it_runs(store, monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.0)
    with caplog.at_level(logging.INFO, logger=progress.__name__):
        go(store, pretrain, size="22m", seed=1, temperature=1, evals_per_epoch=1, epochs=2, **SHORT | {"batch_size": 4})
    told = [r.getMessage() for r in caplog.records if r.getMessage().startswith("pretrain: ")]
    assert [re.findall(r"(loss|learning_rate|dev_score) [\d.e-]+", line) for line in told] == [
        ["loss", "learning_rate"],
        ["loss", "learning_rate", "dev_score"],
        ["loss", "learning_rate", "dev_score"],
        ["loss", "learning_rate", "dev_score"],
    ]
