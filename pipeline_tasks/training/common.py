"""What both training stages share: parameters, instructions, saving."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, tuning
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.training.config import TrainConfig
from pipeline_tasks.training.examples import DevSet, TrainingSet

SEPARATOR = ": "


class TrainParams(StepParams):
    """Hyperparameters of one stage; 0 takes the family's value for the size (DMRetriever, Table 8)."""

    size: str = Field("33m", description="33m, 109m, 335m, 596m, 4b or 7.6b")
    epochs: int = Field(1, ge=1, description="passes over the training rows")
    learning_rate: float = Field(0.0, ge=0, description="peak learning rate; 0: the family's")
    batch_size: int = Field(0, ge=0, description="queries per optimiser step; 0: the family's")
    max_query_length: int = Field(128, ge=8, description="tokens, instruction included")
    max_passage_length: int = Field(256, ge=16, description="tokens")
    seed: int = Field(0, ge=0, description="order of rows, dropout")
    checkpoint_every_steps: int = tuning(50, ge=1, description="optimiser steps between checkpoints")

    def config(self, *, learning_rate: float, batch_size: int, in_batch: bool) -> TrainConfig:
        """The trainer's configuration, with the family's values where none is set."""
        return TrainConfig(
            epochs=self.epochs,
            learning_rate=self.learning_rate or learning_rate,
            batch_size=self.batch_size or batch_size,
            max_query_length=self.max_query_length,
            max_passage_length=self.max_passage_length,
            in_batch=in_batch,
            seed=self.seed,
            threads=settings().threads,
            checkpoint_every_steps=self.checkpoint_every_steps,
        )


def prompts() -> dict[str, str]:
    """Intent -> the text put before its queries."""
    return {name: intent.instruction + SEPARATOR for name, intent in load_intents(domain_folder()).items()}


def train_and_export(
    examples: TrainingSet,
    dev: DevSet,
    backbone: Path,
    config: TrainConfig,
    run: Run,
    card: Mapping[str, Any],
    *,
    pool_prompt: bool = True,
) -> Path:
    """Train from ``backbone``, export the best checkpoint below the run's scratch folder and return that folder."""
    from pipeline_tasks.training.export import export
    from pipeline_tasks.training.trainer import train

    with run.progress(0, "steps") as meter:

        def report(step: int, steps: int, facts: dict[str, float]) -> None:
            meter.total = steps
            meter.advance(step - meter.done)

        result = train(examples, dev, backbone, config, run.scratch / "checkpoints", report)
    run.count("optimiser_steps", result.steps)
    run.count("resumed_at_step", result.resumed_at)
    run.count("first_loss", round(result.losses[0], 4))
    run.count("last_loss", round(result.losses[-1], 4))
    if result.best_score is not None:
        run.count("dev_ndcg_at_10", round(result.best_score, 4))
    out = run.scratch / "model"
    facts = dict(card) | {"training": config.model_dump(exclude={"device", "threads", "checkpoint_every_steps"})}
    length = config.max_passage_length
    export(result.encoder, out, card=facts, prompts=prompts(), max_length=length, pool_prompt=pool_prompt)
    return out
