"""Contrastive learning of one encoder: rows of queries and passages in, its best weights out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.training.compute.cpu_shortcuts import cpu_shortcuts
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized
from pipeline_tasks.training.loop import Report, Task, TrainResult, run
from pipeline_tasks.training.model.limits import check_backbone
from pipeline_tasks.training.model.open_model import open_encoder
from pipeline_tasks.training.objective import Objective
from pipeline_tasks.training.parallel.divided import divides
from pipeline_tasks.training.parallel.peers import Peers
from pipeline_tasks.training.parallel.processes import run_on_devices
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampling.sampled_schedule import Sampling
from pipeline_tasks.training.schedule import plan_schedule
from pipeline_tasks.training.validation import validate


def train(
    examples: Examples,
    dev: Examples,
    backbone_dir: Path,
    params: TrainParams,
    work_dir: Path,
    progress: Report = lambda step, steps, facts: None,
    *,
    dev_of_start: Examples | None = None,
    length_of_start: int | None = None,
    targets: Mapping[str, Examples] | None = None,
    threads: int = 1,
    devices: Sequence[str] = (),
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
        progress: called after each step with step, steps and facts (``loss``, ``learning_rate``, ``tokens_per_s``,
            ``peak_gib`` of the GPU or else of the process, and ``dev_score`` where it is known).
        dev_of_start: the same queries asked as the encoder wants it that came; as in ``dev`` where not given.
        length_of_start: tokens after which that encoder cuts texts, of queries no fewer than ``params`` say, so that
            something is left behind an instruction; as these where not given.
        targets: sets that a sampler is guided by, asked as in ``dev``; that one where there are none.
        threads: of the processor; another number may change the last bits.
        devices: of this node; where more than one, or other nodes train with it, a process on each: together they take
            the steps that one would; the last bits differ.

    Raises:
        InputError: no rows, rows without any negatives, in their batch too, or without the teacher's scores that the
            objective needs, texts longer than the backbone allows, a work_dir of another run, a GPU asked for and not
            there, or a loss that is not finite.
        TransientError: of several processes one was killed; the next call goes on from the last checkpoint.

    Source:
        DMRetriever, Algorithm 1 lines 7 and 11-12, appendix I.
    """
    of_start = dev_of_start or dev, length_of_start
    work = partial(_train, examples, dev, *of_start, targets or {}, backbone_dir, params, work_dir, threads)
    return run_on_devices(work, devices, progress)


def _train(
    examples: Examples,
    dev: Examples,
    dev_of_start: Examples,
    length_of_start: int | None,
    targets: Mapping[str, Examples],
    backbone_dir: Path,
    params: TrainParams,
    work_dir: Path,
    threads: int,
    peers: Peers,
    progress: Report,
) -> TrainResult:
    encoder = open_encoder(backbone_dir, params, peers)
    check_backbone(encoder, params, params.max_length)
    lengths = {"max_query_length": params.max_query_length, "max_passage_length": params.max_passage_length}
    own = dict.fromkeys(lengths, length_of_start) if length_of_start else lengths
    own |= {"max_query_length": max(own["max_query_length"], params.max_query_length)}
    sets = {"train": (examples, lengths), "dev_of_start": (dev_of_start, own), "dev": (dev, lengths)}
    sets |= {f"target-{number}": (rows, lengths) for number, rows in enumerate(targets.values())}
    with peers.first_of_node():
        data, of_start, of_trained, *guides = (
            tokenized(rows, encoder.tokens, work_dir / "tokens" / name, **cut) for name, (rows, cut) in sets.items()
        )
    _check_rows(data, params)
    gradients = Gradients(encoder, data, params, peers)

    def score(step: int) -> float | None:
        asked = of_trained if step else of_start
        return validate(encoder, asked, params.micro_batch_tokens, params.bf16, peers) if len(asked) else None

    def n_tokens(rows: np.ndarray) -> int:
        return int(data.tokens_of[rows].sum())

    identity = digest([part.key for part in (data, of_start, of_trained, *guides)])
    if params.sampler:
        guided_by = dict(zip(targets, guides, strict=True)) or {"dev": of_trained}
        sampling = Sampling(params.sampler, data, guided_by, gradients)
        identity += sampling.key
        task = Task(
            sampling, lambda _, step: gradients.add(sampling.batch(step), step), score, identity, n_tokens, sampling
        )
    else:
        batches = plan_schedule(data, params)
        rows = [batch.rows for batch in batches]
        task = Task(rows, lambda _, step: gradients.add(batches[step], step), score, identity, n_tokens)
    with nullcontext() if divides(params, peers) else cpu_shortcuts(encoder.model):
        return run(encoder, task, params, work_dir, progress, threads, peers)


def _check_rows(data: Rows, params: TrainParams) -> None:
    if not len(data):
        raise InputError("no training rows: the training set is empty")
    for name, own, objective in _learned(data, params):
        of = f" of {name!r}" if name else ""
        if objective.needs_targets and not data.targets_of.lengths[own].any():
            raise InputError(
                f"objective={objective.name!r} learns from a teacher and no row{of} has its scores: train on "
                "mtt/<alpha>-kd"
            )
        if objective.needs_contrasts and not data.contrasts_of.lengths[own].any():
            raise InputError(
                f"objective={objective.name!r} needs other instructions and no row{of} has any: train on tuples/checked"
            )
        if data.negatives_of.lengths[own].any() or objective.needs_contrasts:
            continue
        if not (params.in_batch or objective.needs_batch):
            raise InputError(f"no row{of} has a negative: set in_batch=True, or mine negatives")
        if params.batch_size == 1:
            raise InputError(
                f"batch_size=1, and no row{of} has a negative: a batch of one row has no other passages. Raise "
                "batch_size (what is in memory at once is up to micro_batch_tokens and graph_tokens), or mine negatives"
            )


def _learned(data: Rows, params: TrainParams) -> Iterator[tuple[str, np.ndarray, Objective]]:
    """Name, rows and objective of each source that has batches of its own; without a mixture of all rows."""
    if not params.mixture:
        yield "", np.arange(len(data)), params.objective
    for number, name in enumerate(data.sources):
        source = params.mixture.get(name)
        if source and source.weight:
            yield name, np.flatnonzero(data.source_of == number), source.objective or params.objective
