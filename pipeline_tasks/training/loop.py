"""A task and the loop that learns it: one encoder on a device or several, resumable after any kill.

Everything a step does is a function of its number: its rows come from a schedule laid out at the start, its
learning rate from a formula, its dropout from a seed per micro-batch. A run that was killed and resumed
therefore ends in the same bytes as one that was not, at an epoch's edge as anywhere else.
"""

import hashlib
import math
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training import checkpoints
from pipeline_tasks.training.checkpoints import Progress
from pipeline_tasks.training.compute.reproducible import reproducible
from pipeline_tasks.training.descent import Descent, told_when_full
from pipeline_tasks.training.model.open_model import device_of
from pipeline_tasks.training.parallel.divided import divide, divides, stretch, whole
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams
from pipeline_tasks.training.sampling.sampled_schedule import Sampling, Trajectory
from pipeline_tasks.training.schedule import evaluation_steps, learning_rate

_ROUNDING = 1e-12
"""Scores that differ by no more are equal: a mean over the same ranks may, by their order; another rank makes more."""

Report = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class Task:
    """What is learned: the loop asks nothing else of the data.

    Attributes:
        schedule: rows of every step.
        accumulate: adds the gradients of a batch's mean loss to the weights and returns that loss; rows and step in.
        score: of the weights as they are at a step, the higher the better; None without development data.
        identity: what decides its rows and their losses besides the hyperparameters: a sha256.
        n_tokens: of a step's rows.
        sampling: what decides, while training goes on, which rows the schedule has for the steps to come.
    """

    schedule: Sequence[np.ndarray]
    accumulate: Callable[[np.ndarray, int], float]
    score: Callable[[int], float | None]
    identity: str
    n_tokens: Callable[[np.ndarray], int]
    sampling: Sampling | None = None


@dataclass(frozen=True)
class TrainResult:
    """A trained encoder and how it came about.

    Attributes:
        encoder: the weights of ``best_step``, on the CPU, in evaluation mode.
        steps: optimiser steps of the whole run.
        epochs: passes over the training rows; with a sampler as many rows as that many passes have.
        best_step: the step whose weights these are, 0 for those it came with; the last one without development data.
        best_score: its score on the development set (NDCG@10 in contrastive learning), None without one; of scores that
            are equal but for rounding the highest.
        scores: (step, score) of every evaluation; the first is step 0, the encoder as it came.
        losses: training loss of every step.
        rows: how many rows every step learned from.
        resumed_at: the step at which this call took over, 0 for a run that was never interrupted.
        trajectory: what a sampler decided, empty without one.
    """

    encoder: TrainableEncoder
    steps: int
    epochs: float
    best_step: int
    best_score: float | None
    scores: tuple[tuple[int, float], ...]
    losses: tuple[float, ...]
    rows: tuple[int, ...]
    resumed_at: int
    trajectory: Trajectory = ()


def run(
    encoder: TrainableEncoder,
    task: Task,
    params: OptimiserParams,
    work_dir: Path,
    progress: Report,
    threads: int,
    peers: Peers = ALONE,
) -> TrainResult:
    """Train ``encoder`` on any task, resumable; what it came with competes with every checkpoint.

    Of several processes, among which the task shares its work, the leader saves. What is promised:
    :func:`pipeline_tasks.training.contrastive.train`.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    fingerprint = _fingerprint(task, encoder, params, threads)
    with reproducible(max(1, threads // peers.local_count)):
        if divides(params, peers):
            divide(encoder.model, peers, device_of(params))
        loop = _Run(encoder, task, params, work_dir, fingerprint, peers)
        resumed_at = checkpoints.resume_step(work_dir, loop.state.step, peers)
        loop.finish(progress)
    return loop.result(resumed_at)


class _Run:
    """The state of one run between steps; ``finish`` is the loop."""

    def __init__(
        self,
        encoder: TrainableEncoder,
        task: Task,
        params: OptimiserParams,
        work_dir: Path,
        fingerprint: str,
        peers: Peers,
    ) -> None:
        self.encoder, self.task, self.params, self.peers = encoder, task, params, peers
        self.work_dir, self.fingerprint = work_dir, fingerprint
        self.evaluate_at = evaluation_steps(len(task.schedule), params)
        self.descent = Descent(encoder.model, params, peers)
        if params.recompute:
            encoder.model.activation_checkpointing_enable({"use_reentrant": False})
        self.state = Progress()
        checkpoints.broadcast_checkpoint(work_dir, peers)
        saved = checkpoints.load(work_dir, fingerprint)
        if saved:
            self.state, weights, optimizer_state = saved
            own = encoder.trained()
            encoder.restore({name: stretch(weight, own.get(name, weight)) for name, weight in weights.items()})
            if self.state.step < len(task.schedule):
                self.descent.optimiser.load(optimizer_state)
        if task.sampling:
            self.state.sampling = task.sampling.state = self.state.sampling or task.sampling.state

    def finish(self, progress: Report) -> None:
        """Run the steps that are left."""
        state, total = self.state, len(self.task.schedule)
        if state.step == 0:
            with told_when_full(self.params, 0):
                self._evaluate()
        while state.step < total:
            with told_when_full(self.params, state.step):
                facts = self._step(state.step)
                state.step += 1
                if state.step in self.evaluate_at:
                    facts |= self._evaluate()
                if state.step in self.evaluate_at or state.step % self.params.checkpoint_every_steps == 0:
                    self._save()
            if self.peers.leads:
                progress(state.step, total, facts)

    def result(self, resumed_at: int) -> TrainResult:
        """The best weights, loaded; those that it has, in a process that is one of several."""
        state = self.state
        if self.peers.count == 1:
            if state.best_step is not None:
                self.encoder.restore(checkpoints.load_best(self.work_dir, state.best_step))
            if self.params.recompute:
                self.encoder.model.activation_checkpointing_disable()
            self.encoder.model.to("cpu").eval()
        rows, sampling = tuple(map(len, self.task.schedule)), self.task.sampling
        return TrainResult(
            encoder=self.encoder,
            steps=len(rows),
            epochs=sum(rows) / int(sampling.pool.n_rows.sum()) if sampling else self.params.epochs,
            best_step=state.step if state.best_step is None else state.best_step,
            best_score=state.best_score,
            scores=tuple(state.scores),
            losses=tuple(state.losses),
            rows=rows,
            resumed_at=resumed_at,
            trajectory=sampling.trajectory() if sampling else (),
        )

    def _step(self, step: int) -> dict[str, float]:
        began = time.monotonic()
        rate = learning_rate(step, len(self.task.schedule), self.params)
        self.descent.rate = rate
        if self.task.sampling:
            self.task.sampling.before(step, self.descent)
        rows = self.task.schedule[step]
        loss = self.descent.learn(lambda: self.task.accumulate(rows, step), rows, step)
        self.state.losses.append(loss)
        if self.task.sampling:
            self.task.sampling.after(step)
        speed = self.task.n_tokens(rows) / max(time.monotonic() - began, 1e-9)
        peak = _peak_gib(self.encoder.device)
        return {"loss": loss, "learning_rate": rate, "tokens_per_s": speed, "peak_gib": peak}

    def _evaluate(self) -> dict[str, float]:
        state = self.state
        found = self.task.score(state.step)
        if found is None:
            return {}
        score = self.peers.add(found if self.peers.leads else 0.0)  # so that all choose the same
        if not math.isfinite(score):
            raise InputError(
                f"the development score after step {state.step} is {score}: the weights have diverged; lower "
                f"learning_rate ({self.params.learning_rate}) and start again in an empty work folder"
            )
        state.scores.append((state.step, score))
        highest = score if state.best_score is None else max(score, state.best_score)
        if score >= highest - _ROUNDING:
            state.best_step, state.best_score = state.step, highest
            weights = whole(self.encoder.trained(), self.peers)
            if self.peers.leads:
                checkpoints.save_best(self.work_dir, state.step, weights)
        return {"dev_score": score}

    def _save(self) -> None:
        weights, optimizer_state = whole(self.encoder.trained(), self.peers), self.descent.optimiser.state()
        if self.peers.leads:
            checkpoints.save(self.work_dir, self.fingerprint, self.state, weights, optimizer_state)


def _peak_gib(device: torch.device) -> float:
    """The most that this process has held so far, of the GPU's memory where it trains on one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / (1 << 30)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def _fingerprint(task: Task, encoder: TrainableEncoder, params: OptimiserParams, threads: int) -> str:
    """Names a run by what decides its result: hyperparameters, threads, the task's data and first weights."""
    digest = hashlib.sha256(canonical_json([params.hyperparameters(), threads, task.identity]))
    for name, weights in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + weights.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
