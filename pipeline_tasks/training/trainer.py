"""The training loop: contrastive learning of one encoder on one device, resumable after any kill.

Everything a step does is a function of its number: its rows come from a schedule laid out at the start, its
learning rate from a formula, its dropout from a seed per micro-batch. A run that was killed and resumed
therefore ends in the same bytes as one that was not, at an epoch's edge as anywhere else. One device is
enough for these model sizes; other devices are a matter of sharding ``accumulate`` over groups.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.training import backbone, checkpoints
from pipeline_tasks.training.backbone import Encoder
from pipeline_tasks.training.checkpoints import Progress
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.gradients import Gradients
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.reproducible import reproducible
from pipeline_tasks.training.schedule import evaluation_steps, learning_rate, plan_schedule
from pipeline_tasks.training.validation import validate

log = logging.getLogger(__name__)
_ROWS_NAMED = 10

Report = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class TrainResult:
    """A trained encoder and how it came about.

    Attributes:
        encoder: the weights of ``best_step``, on the CPU, in evaluation mode.
        steps: optimiser steps of the whole run.
        negatives: hard negatives of all rows.
        best_step: the step whose weights these are, 0 for those it came with; the last one without development data.
        best_score: its NDCG@10 on the development set, None without one.
        scores: (step, NDCG@10) of every evaluation; the first is step 0, the encoder as it came.
        losses: training loss of every step.
        resumed_at: the step at which this call took over, 0 for a run that was never interrupted.
    """

    encoder: Encoder
    steps: int
    negatives: int
    best_step: int
    best_score: float | None
    scores: tuple[tuple[int, float], ...]
    losses: tuple[float, ...]
    resumed_at: int


def train(
    examples: Examples,
    dev: Examples,
    backbone_dir: Path,
    params: TrainParams,
    work_dir: Path,
    progress: Report = lambda step, steps, facts: None,
    *,
    dev_of_start: Examples | None = None,
    threads: int = 1,
) -> TrainResult:
    """Train the encoder in ``backbone_dir`` and return its best weights on ``dev``, or those it came with.

    On one machine the same arguments give the same weights, byte for byte, however often the process was
    killed and the call repeated with the same ``work_dir``. The weights as they came compete with every checkpoint: a
    run that only hurts gives them back. Of equal scores the later one wins, since it has seen more data; so a
    development set that cannot tell them apart does not undo the training.

    Args:
        examples: training rows.
        dev: development queries, asked as the trained encoder wants it.
        backbone_dir: the weights to start from.
        params: hyperparameters.
        work_dir: holds this run's tokens and checkpoints and nothing else; may be removed once the result is stored.
        progress: called after each step with step, steps and facts (``loss``, ``learning_rate``, ``dev_ndcg@10``).
        dev_of_start: the same queries asked as the encoder wants it that came; as in ``dev`` where not given.
        threads: of the processor; another number may change the last bits.

    Raises:
        InputError: no rows, rows without any negatives, or without the teacher's scores that the objective needs, texts
            longer than the backbone allows, a work_dir of another run, a GPU asked for and not there, or a loss that is
            not finite.

    Source:
        DMRetriever, Algorithm 1 lines 7 and 11-12, appendix I.
    """
    device = _device(params)
    encoder = backbone.load(backbone_dir, device)
    _check_lengths(encoder, params)
    lengths = {"max_query_length": params.max_query_length, "max_passage_length": params.max_passage_length}
    sets = {"train": examples, "dev_of_start": dev_of_start or dev, "dev": dev}
    data, *devs = (
        tokenized(rows, encoder.tokenizer, work_dir / "tokens" / name, **lengths) for name, rows in sets.items()
    )
    _check_rows(data, params)
    fingerprint = _fingerprint([data, *devs], encoder, params, threads)
    with reproducible(threads):
        run = _Run(encoder, data, devs, params, work_dir, fingerprint)
        resumed_at = run.state.step
        run.finish(progress)
    return run.result(resumed_at)


class _Run:
    """The state of one run between steps; ``finish`` is the loop."""

    def __init__(
        self,
        encoder: Encoder,
        data: Rows,
        devs: Sequence[Rows],
        params: TrainParams,
        work_dir: Path,
        fingerprint: str,
    ) -> None:
        self.encoder, self.data, self.params = encoder, data, params
        self.dev_of_start, self.dev = devs
        self.work_dir, self.fingerprint = work_dir, fingerprint
        self.autocast = params.precision == "bf16"
        self.gradients = Gradients(encoder, data, params)
        self.schedule = plan_schedule(data, params)
        self.evaluate_at = evaluation_steps(len(self.schedule), params)
        self.optimizer = _optimizer(encoder.model, params)
        if params.recompute:
            encoder.model.activation_checkpointing_enable({"use_reentrant": False})
        self.state = Progress()
        saved = checkpoints.load(work_dir, fingerprint)
        if saved:
            self.state, weights, optimizer_state = saved
            encoder.model.load_state_dict(weights)
            self.optimizer.load_state_dict(optimizer_state)
            log.info("resuming at step %d of %d", self.state.step, len(self.schedule))

    def finish(self, progress: Report) -> None:
        """Run the steps that are left."""
        state, total = self.state, len(self.schedule)
        if state.step == 0:
            self._evaluate()
        while state.step < total:
            facts = self._step(state.step)
            state.step += 1
            if state.step in self.evaluate_at:
                facts |= self._evaluate()
            if state.step in self.evaluate_at or state.step % self.params.checkpoint_every_steps == 0:
                self._save()
            progress(state.step, total, facts)

    def result(self, resumed_at: int) -> TrainResult:
        """The best weights, loaded."""
        state, model = self.state, self.encoder.model
        if state.best_step is not None:
            model.load_state_dict(checkpoints.load_best(self.work_dir, state.best_step))
        if self.params.recompute:
            model.activation_checkpointing_disable()
        model.to("cpu").eval()
        return TrainResult(
            encoder=self.encoder,
            steps=len(self.schedule),
            negatives=len(self.data.negatives_of.values),
            best_step=state.step if state.best_step is None else state.best_step,
            best_score=state.best_score,
            scores=tuple(state.scores),
            losses=tuple(state.losses),
            resumed_at=resumed_at,
        )

    def _step(self, step: int) -> dict[str, float]:
        rate = learning_rate(step, len(self.schedule), self.params)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        self.encoder.model.train()
        batch = self.schedule[step]
        try:
            loss = self.gradients.add(batch, step)
        except torch.OutOfMemoryError as error:
            longest = int(self.data.tokens_of[batch.rows].max())
            raise InputError(
                f"the GPU's memory is full at step {step}, whose longest row has {longest} tokens: lower "
                f"micro_batch_tokens ({self.params.micro_batch_tokens}) or graph_tokens ({self.params.graph_tokens}), "
                "or set recompute=True"
            ) from error
        if not math.isfinite(loss):
            rows = ", ".join(map(str, sorted(batch.rows)[:_ROWS_NAMED]))
            raise InputError(
                f"the loss at step {step} is {loss}: lower learning_rate ({self.params.learning_rate}), or look at its "
                f"{len(batch.rows)} training rows: {rows}{', ...' if len(batch.rows) > _ROWS_NAMED else ''}"
            )
        torch.nn.utils.clip_grad_norm_(self.encoder.model.parameters(), self.params.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state.losses.append(loss)
        return {"loss": loss, "learning_rate": rate}

    def _evaluate(self) -> dict[str, float]:
        if not len(self.dev):
            return {}
        state = self.state
        dev = self.dev if state.step else self.dev_of_start
        score = validate(self.encoder, dev, self.params.micro_batch_tokens, self.autocast)
        state.scores.append((state.step, score))
        if state.best_score is None or score >= state.best_score:
            state.best_step, state.best_score = state.step, score
            checkpoints.save_best(self.work_dir, state.step, self.encoder.model.state_dict())
        return {"dev_ndcg@10": score}

    def _save(self) -> None:
        weights, optimizer_state = self.encoder.model.state_dict(), self.optimizer.state_dict()
        checkpoints.save(self.work_dir, self.fingerprint, self.state, weights, optimizer_state)


def _optimizer(model: torch.nn.Module, params: TrainParams) -> torch.optim.Optimizer:
    """AdamW; biases and normalisation weights (vectors) are not decayed."""
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    groups = [
        {"params": [w for w in trained if w.ndim >= 2], "weight_decay": params.weight_decay},
        {"params": [w for w in trained if w.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params.learning_rate, fused=True)


def _device(params: TrainParams) -> torch.device:
    if params.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda' and no GPU is seen: use device='cpu', or a machine with a GPU")
    return torch.device(params.device)


def _check_rows(data: Rows, params: TrainParams) -> None:
    if not len(data):
        raise InputError("no training rows: the training set is empty")
    taught = [objective.name for objective in params.objectives if objective.needs_targets]
    if taught and not len(data.targets_of.values):
        name = taught[0]
        raise InputError(f"objective={name!r} learns from a teacher and no row has its scores: train on mtt/<alpha>-kd")
    if not params.in_batch and not len(data.negatives_of.values):
        raise InputError("no row has a negative: set in_batch=True, or mine negatives")


def _check_lengths(encoder: Encoder, params: TrainParams) -> None:
    limit = getattr(encoder.model.config, "max_position_embeddings", None)
    longest = max(params.max_query_length, params.max_passage_length)
    if limit is not None and longest > limit:
        raise InputError(f"texts of {longest} tokens do not fit a backbone of {limit} positions: lower max_*_length")


def _fingerprint(sets: Sequence[Rows], encoder: Encoder, params: TrainParams, threads: int) -> str:
    """Names a run by what decides its result: hyperparameters, threads, rows and first weights."""
    digest = hashlib.sha256(canonical_json([params.hyperparameters(), threads, *(part.key for part in sets)]))
    for name, weights in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + weights.cpu().numpy().tobytes())
    return digest.hexdigest()
