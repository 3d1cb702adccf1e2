"""Contrastive learning of one encoder: rows of queries and passages in, its best weights out."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.examples import DevSet, TokenSet, TrainingSet, tokenize_set
from pipeline_tasks.training.gradients import accumulate
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import plan_schedule
from pipeline_tasks.training.task import Report, Task, TrainResult, check_lengths, open_encoder, run
from pipeline_tasks.training.validation import validate


def train(
    examples: TrainingSet,
    dev: DevSet,
    backbone_dir: Path,
    params: TrainParams,
    work_dir: Path,
    progress: Report = lambda step, steps, facts: None,
    *,
    dev_of_start: DevSet | None = None,
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
        work_dir: holds this run's checkpoints and nothing else; may be removed once the result is stored.
        progress: called after each step with step, steps and facts (``loss``, ``learning_rate``, ``dev_score``).
        dev_of_start: the same queries asked as the encoder wants it that came; as in ``dev`` where not given.
        threads: of the processor; another number may change the last bits.

    Raises:
        InputError: no rows, rows without any negatives, or without the teacher's scores that the objective needs, a row
            that names an unknown passage, texts longer than the backbone allows, a work_dir of another run, a GPU asked
            for and not there, or a loss that is not finite.

    Source:
        DMRetriever, Algorithm 1 lines 7 and 11-12, appendix I.
    """
    if not len(examples.queries):
        raise InputError("no training rows: the training set is empty")
    encoder = open_encoder(backbone_dir, params)
    check_lengths(encoder, max(params.max_query_length, params.max_passage_length))
    lengths = {"max_query_length": params.max_query_length, "max_passage_length": params.max_passage_length}
    data = tokenize_set(examples, encoder.tokens, **lengths)
    _check_rows(data, params)
    devs = [tokenize_set(rows, encoder.tokens, **lengths) for rows in (dev_of_start or dev, dev)]
    autocast = params.precision == "bf16"

    def score(step: int) -> float | None:
        asked = devs[1] if step else devs[0]
        return validate(encoder, asked, params.micro_batch_tokens, autocast) if len(asked) else None

    task = Task(
        plan_schedule(data, params),
        lambda rows, step: accumulate(encoder, data, rows, step, params, autocast),
        score,
        _identity([data, *devs]),
    )
    return run(encoder, task, params, work_dir, progress, threads)


def _check_rows(data: TokenSet, params: TrainParams) -> None:
    name = params.objective.name
    if params.objective.needs_targets and not any(map(len, data.targets_of)):
        raise InputError(f"objective={name!r} learns from a teacher and no row has its scores: train on mtt/<alpha>-kd")
    if not params.in_batch and not any(map(len, data.negatives_of)):
        raise InputError("no row has a negative: set in_batch=True, or mine negatives")


def _identity(sets: Sequence[TokenSet]) -> str:
    digest = hashlib.sha256()
    for part in sets:
        numbers = [part.unpooled, part.query_of, part.positive_of]
        for arrays in (part.queries, part.passages, part.negatives_of, part.targets_of, numbers):
            for array in arrays:
                digest.update(len(array).to_bytes(8, "little") + array.tobytes())
    return digest.hexdigest()
