"""How a training tells how far it is."""

import logging
from dataclasses import replace

from pipeline_tasks.core import progress
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.training.loop import TrainResult
from pipeline_tasks.training.stage import count, reported


def test_the_first_step_that_is_told_says_nothing_of_the_rate(tmp_path, monkeypatch, caplog):
    """It was done when the meter heard of it, and so were all before it, which an earlier run may have done."""
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.0)
    run = Run(LocalStore(tmp_path), Inputs({}), 0, "finetune", "scratch")
    with caplog.at_level(logging.INFO, logger=progress.__name__), reported(run) as report:
        report(901, 1000, {"loss": 2.0, "dev_score": 0.5})
        report(902, 1000, {"loss": 1.5})
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "finetune: 901/1000 steps, 0.0 steps/s, time left unknown; loss 2, dev_score 0.5"
    assert second.startswith("finetune: 902/1000 steps, ") and second.endswith("s left; loss 1.5, dev_score 0.5")


def test_a_training_that_nothing_could_choose_a_checkpoint_of_says_so(tmp_path, caplog):
    run = Run(LocalStore(tmp_path), Inputs({}), 0, "pretrain", "scratch")
    scored = TrainResult(None, 2, 1.0, 2, 0.5, ((0, 0.4), (2, 0.5)), (2.0, 1.0), (1, 1), 0)
    count(scored, run, "dev_ndcg_at_10")
    assert run.counters["dev_ndcg_at_10"] == 0.5 and not caplog.records
    count(replace(scored, best_score=None, scores=()), run, "dev_ndcg_at_10")
    assert "pretrain: there are no development data to choose a checkpoint by" in caplog.text
