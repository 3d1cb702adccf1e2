"""What a training would take, told before it begins: steps, tokens, memory, hours.

Rows and tokens: :mod:`pipeline_tasks.training.dry_run.loads`. Memory and work:
:mod:`pipeline_tasks.training.dry_run.cost`; what a sampler's decisions take of both is among them. Hours: work / (peak
x share of it x cards), the shares as ``models/data/gpus.toml`` assumes them, or what the size reached where that is
less; searching development passages and reading data come on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.encoders.half_precision import slow_here
from pipeline_tasks.encoders.lora import check_targets
from pipeline_tasks.models.gpus import Cards, cards
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.models.sizes import get_size
from pipeline_tasks.training.adapt_backbone import AdaptParams
from pipeline_tasks.training.dry_run.cost import ROOM, Cost
from pipeline_tasks.training.dry_run.loads import CHARACTERS, Load, Training, loads, target_loads
from pipeline_tasks.training.guided import Guided
from pipeline_tasks.training.model.limits import check_recompute
from pipeline_tasks.training.model.starting_model import (
    StartingModel,
    model_type_of_start,
    starting_model,
    untrained_model,
)
from pipeline_tasks.training.params import OptimiserParams, TrainParams
from pipeline_tasks.training.sampler import PROBE_ROWS
from pipeline_tasks.training.schedule import evaluation_steps, n_decisions, n_steps

_GIB = 1 << 30


@dataclass(frozen=True)
class Forecast:
    """What a training would take.

    Attributes:
        steps: optimiser steps.
        n_tokens: that are learned from.
        memory: bytes on a card, by what they hold.
        operations: floating-point operations, evaluations included.
        most_tflops: what a card has reached of this size, in 10^12 a second; None where nobody knows.
    """

    steps: int
    n_tokens: int
    memory: Mapping[str, int]
    operations: float
    most_tflops: float | None = None

    def tflops(self, on: Cards, *, half: bool) -> float:
        """10^12 operations a second of each of these cards."""
        assumed = (on.gpu.bf16_tflops if half else on.gpu.fp32_tflops) * on.gpu.share_of_peak
        return min(assumed, self.most_tflops or assumed)

    def hours(self, on: Cards, *, half: bool) -> float:
        """How long these cards take."""
        return self.operations / (self.tflops(on, half=half) * 1e12 * on.number) / 3600

    def speed(self, on: Cards, *, half: bool) -> str:
        """What the hours were reckoned with, in words."""
        if (reached := self.tflops(on, half=half)) == self.most_tflops:
            return f"{reached:g} TFLOP/s, the most that was measured"
        return f"{on.gpu.share_of_peak:.0%} of the peak assumed"

    def fits(self, on: Cards) -> bool:
        """Whether a card has that memory, and some more."""
        return sum(self.memory.values()) * ROOM <= on.gpu.memory_gib * _GIB


def forecast_lines(inputs: Inputs, params: StepParams, on: str = "") -> list[str]:
    """What a training over these inputs would take of these cards, a line each; nothing for any other step.

    Args:
        inputs: of the step.
        params: its parameters. What a machine without a GPU resolved them to is taken as it would be with one.
        on: ``H200``, ``4xH200``; empty: one card of every kind that is known.

    Raises:
        InputError: no such kind of card, or ``recompute`` or ``lora_targets`` are not for what it starts from.
    """
    if not isinstance(params, Training):
        return []
    if params.recompute:
        check_recompute(model_type_of_start(inputs, params))
    params, chosen = with_gpu(params), cards(on)
    if (start := starting_model(inputs, params)).name not in SHAPES:
        return [f"{start.name} is not in models/data/shapes.toml, so what its training would take is not known"]
    if params.lora_rank:
        check_targets(params.lora_targets, {matrix.name for matrix in SHAPES[start.name].matrices}, start.name)
    half = trains_in_bf16_on_gpu(params)
    train, dev = loads(inputs, params)
    targets = target_loads(inputs, params)
    count = partial(forecast, train=train, dev=dev, targets=targets, half=half, n_cards=chosen[0].number, start=start)
    found = count(params)
    cost = _cost(params, start, half=half)
    rows = sum(train.rows.values())
    memory = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in found.memory.items())
    lines = [
        f"{params.size}: {cost.shape.n_params:,} parameters, {cost.trained:,} of them trained, in "
        f"{'bf16' if half else 'fp32'}{_frozen(cost, start)}",
        f"{rows:,} rows: {found.steps:,} steps of {params.batch_size:,}, about {found.n_tokens:,} tokens "
        f"({CHARACTERS} characters each)",
        f"GiB on a card: {sum(found.memory.values()) / _GIB:.2f}: {memory}",
    ]
    for one in chosen:
        room = "fits" if found.fits(one) else "does not fit"
        larger = _larger(params, count, one, _batch_tokens(params, train))
        took = f"{one}: {_span(found.hours(one, half=half))} ({found.speed(one, half=half)})"
        lines.append(f"{took}; {room} {one.gpu.memory_gib:g} GiB{larger}")
    if params.bf16 and (why := slow_here("bfloat16", params.device)):
        lines.append(f"precision=bf16, and {why}: to train here set precision=fp32")
    return lines


def hours(inputs: Inputs, params: StepParams, on: str) -> float | None:
    """Hours that these cards take for a training over these inputs; None for any other step, or an unknown shape.

    Raises:
        InputError: no such kind of card.
    """
    if not isinstance(params, Training) or (start := starting_model(inputs, params)).name not in SHAPES:
        return None
    params, half = with_gpu(params), trains_in_bf16_on_gpu(params)
    found = forecast(params, *loads(inputs, params), target_loads(inputs, params), half=half, start=start)
    return found.hours(cards(on)[0], half=half)


def with_gpu(params: Training) -> Training:
    """As they would be on a machine with a GPU: what a processor's pieces are is then the size's."""
    size = get_size(params.size)
    own, other = size.pieces(params.device), size.pieces("cuda")
    pieces = {name: getattr(other, name) for name, narrow in own if getattr(params, name, None) == narrow}
    return params.model_copy(update=pieces)


def trains_in_bf16_on_gpu(params: Training) -> bool:
    """Whether a GPU would train in bfloat16; parameters of a processor are counted so, whatever precision they name."""
    return params.device == "cpu" or params.bf16


def _larger(params: Training, count: Callable[[Training], Forecast], on: Cards, most: float) -> str:
    """The largest pieces that fit, twice the given ones or more, of a batch of ``most`` tokens; nothing if none do."""
    names = [name for name in ("micro_batch_tokens", "graph_tokens") if hasattr(params, name)]
    chosen = params
    while chosen.micro_batch_tokens < most:
        wider = chosen.model_copy(update={name: 2 * getattr(chosen, name) for name in names})
        if not count(wider).fits(on):
            break
        chosen = wider
    return "" if chosen is params else " up to " + " ".join(f"{name}={getattr(chosen, name)}" for name in names)


def _batch_tokens(params: OptimiserParams, train: Load) -> float:
    """Of a whole batch."""
    rows = min(params.batch_size, sum(train.rows.values()))
    return rows * train.per_row


def _span(n_hours: float) -> str:
    return f"{n_hours:.1f} hours" if n_hours >= 1 else f"{60 * n_hours:.1f} minutes"


def _frozen(cost: Cost, start: StartingModel) -> str:
    """What weights that do not train are held in, and why that is assumed; nothing where all train, or in fp32."""
    if not (cost.half and cost.rank):
        return ""
    if start.trained:
        return "; the others held in fp32, as a model that has learned is saved"
    if start.in_float32:
        return f"; the others held in fp32, as {start.name} was read back from fewer bits"
    return f"; the others held in bf16, as {start.name} is taken to be published"


def forecast(
    params: Training,
    train: Load,
    dev: Load,
    targets: Sequence[Load] = (),
    *,
    half: bool,
    n_cards: int = 1,
    start: StartingModel | None = None,
) -> Forecast:
    """What a training on ``train``, chosen by ``dev``, would take of each card.

    Args:
        params: of the training.
        train: rows.
        dev: development rows, and what their queries search among.
        targets: rows of each that a sampler looks at.
        half: in bfloat16.
        n_cards: that share it.
        start: what it starts from; None: the backbone, as it came.
    """
    cost, steps = _cost(params, start or untrained_model(params), half=half), n_steps(train.rows, params)
    memory_of = partial(cost.memory, sharding=params.sharding, n_cards=n_cards)
    decided = _decisions(params, train, targets)
    n_tokens = round(_rows_seen(params, train) * train.per_row + decided.learned)
    evaluated = (len(evaluation_steps(steps, params)) + 1) * dev.n_tokens + decided.scored
    if isinstance(params, AdaptParams):
        held = max(params.micro_batch_tokens, params.max_passage_length)
        memory = memory_of(held, params.mask_share * held, head=True)
        head = 2 * params.mask_share * cost.shape.width * cost.shape.vocabulary
        forward, learned = cost.forward(train.per_text) + head, cost.step(train.per_text) + 2 * head
    else:
        held, cached = _activation_tokens(params, train)
        held = max(held, _held_together(params, decided.together))
        pieces = max(1, math.ceil(held / params.micro_batch_tokens))
        memory = memory_of(held, pieces=pieces)
        if decided.held:
            memory["decision"] = decided.held * cost.trained
        forward, learned = cost.forward(train.per_text), cost.step(train.per_text, cached=cached)
    work = n_tokens * learned + evaluated * forward
    return Forecast(steps, n_tokens, memory, work, get_size(params.size).most_tflops)


def _rows_seen(params: OptimiserParams, train: Load) -> float:
    """How many rows steps learn from, those of several epochs each time."""
    if isinstance(params, TrainParams) and params.sampler:
        return n_steps(train.rows, params) * _rows_a_batch(params, train)
    mixture = params.mixture if isinstance(params, TrainParams) else {}
    weights = {name: mixture[name].weight if mixture else 1 for name in train.rows}
    return params.epochs * sum(weights[name] * n for name, n in train.rows.items())


def _rows_a_batch(params: TrainParams, train: Load) -> float:
    """Of one source, whose last batch of a pass may be smaller; the mean over all batches."""
    return sum(train.rows.values()) / max(1, sum(math.ceil(n / params.batch_size) for n in train.rows.values()))


class _Decisions(NamedTuple):
    """All of a sampler.

    Attributes:
        learned: tokens learned from.
        scored: tokens only scored.
        held: bytes that a decision holds a weight that trains.
        together: tokens of the largest target, of whose rows the gradient is one.
    """

    learned: float = 0.0
    scored: float = 0.0
    held: int = 0
    together: float = 0.0


def _decisions(params: OptimiserParams, train: Load, targets: Sequence[Load]) -> _Decisions:
    if not isinstance(params, TrainParams) or not params.sampler or not params.sampler.decides:
        return _Decisions()
    takes, sampler, n = params.sampler.takes(len(train.rows)), params.sampler, n_decisions(train.rows, params)
    rows = sampler.target_batch if isinstance(sampler, Guided) else 0
    each = [min(rows, sum(one.rows.values())) * one.per_row for one in targets]
    of_targets = sum(each)
    of_probes = sum(min(PROBE_ROWS, own) for own in train.rows.values()) / len(train.rows) * train.per_row
    learned = takes.of_sources * _rows_a_batch(params, train) * train.per_row + takes.of_targets * of_targets
    scored = takes.scores * of_targets + takes.probes * of_probes
    if takes.of_targets:  # through the gradient cache a gradient takes a pass more
        scored += takes.of_targets * sum(tokens for tokens in each if tokens > params.graph_tokens)
    return _Decisions(n * learned, n * scored, takes.bytes_a_weight, max(each, default=0) if takes.of_targets else 0)


def _activation_tokens(params: TrainParams, train: Load) -> tuple[int, bool]:
    """Tokens whose activations are held at once, and whether that is through the gradient cache."""
    whole_batch = params.in_batch or any(objective.needs_batch for objective in params.objectives)
    of_batch = round(_batch_tokens(params, train))
    together = of_batch if whole_batch else round(train.per_row)
    if together > params.graph_tokens:
        return _held_together(params, together), True
    return min(of_batch, params.graph_tokens), False


def _held_together(params: TrainParams, tokens: float) -> int:
    """Of so many tokens that meet in one loss, those whose activations are held at once."""
    if tokens > params.graph_tokens:
        return max(params.graph_tokens, params.micro_batch_tokens, params.max_passage_length)
    return round(tokens)


def _cost(params: OptimiserParams, start: StartingModel, *, half: bool) -> Cost:
    adapters = params.lora_rank, params.lora_targets
    return Cost(SHAPES[start.name], *adapters, half, params.recompute, exact=start.in_float32)
