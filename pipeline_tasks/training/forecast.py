"""What a training would take, told before it begins: steps, tokens, memory, hours.

Rows and steps are exact, but for clusters, which are taken to be alike in size. Tokens are taken from the characters of
the texts, as no tokenizer may be at hand: :data:`CHARACTERS` of them a token, and the special tokens; a passage that
several rows of a batch share counts each time. Memory and work: :mod:`pipeline_tasks.training.cost`. Hours: work /
(peak x share of it x cards), the shares as ``models/data/gpus.toml`` assumes them; searching development passages and
reading data come on top.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.encoders.half_precision import slow_here
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.models.gpus import Cards, cards
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.training import adapt_to_corpus, follow_instructions, judged_dev, pretrain, triplets
from pipeline_tasks.training.adapt_backbone import AdaptParams, texts_of
from pipeline_tasks.training.cost import ROOM, Cost
from pipeline_tasks.training.data.examples import CONTRASTS, Examples
from pipeline_tasks.training.params import OptimiserParams, TrainParams
from pipeline_tasks.training.schedule import n_gradients, n_steps

CHARACTERS = 4
"""Of English, a token: the usual rule of thumb. Other languages and tokenizers need fewer."""
_SPECIAL = 2
_GIB = 1 << 30
Training = (
    AdaptParams
    | pretrain.PretrainParams
    | triplets.TripletParams
    | adapt_to_corpus.AdaptToCorpusParams
    | follow_instructions.FollowInstructionsParams
)


@dataclass(frozen=True)
class Load:
    """Texts that a training reads.

    Attributes:
        rows: source -> how many.
        n_texts: queries and passages of all rows.
        n_tokens: of all these.
    """

    rows: Mapping[str, int]
    n_texts: int
    n_tokens: int

    @property
    def per_row(self) -> float:
        """Tokens of a row."""
        return self.n_tokens / max(1, sum(self.rows.values()))

    @property
    def per_text(self) -> float:
        """Tokens of a text."""
        return self.n_tokens / max(1, self.n_texts)


@dataclass(frozen=True)
class Forecast:
    """What a training would take.

    Attributes:
        steps: optimiser steps.
        n_tokens: that are learned from.
        memory: bytes on a card, by what they hold.
        operations: floating-point operations, evaluations included.
    """

    steps: int
    n_tokens: int
    memory: Mapping[str, int]
    operations: float

    def hours(self, on: Cards, *, half: bool) -> float:
        """How long these cards take."""
        tflops = on.gpu.bf16_tflops if half else on.gpu.fp32_tflops
        return self.operations / (tflops * 1e12 * on.gpu.share_of_peak * on.number) / 3600

    def fits(self, on: Cards) -> bool:
        """Whether a card has that memory, and some more."""
        return sum(self.memory.values()) * ROOM <= on.gpu.memory_gib * _GIB


def told(inputs: Inputs, params: StepParams, on: str = "") -> list[str]:
    """What a training over these inputs would take of these cards, a line each; nothing for any other step.

    Args:
        inputs: of the step.
        params: its parameters. What a machine without a GPU resolved them to is taken as it would be with one.
        on: ``H200``, ``4xH200``; empty: one card of every kind that is known.

    Raises:
        InputError: no such kind of card.
    """
    if not isinstance(params, Training):
        return []
    chosen = cards(on)
    if (name := _started_from(params)) not in SHAPES:
        return [f"{name} is not in models/data/shapes.toml, so what its training would take is not known"]
    half = params.device == "cpu" or params.precision == "bf16"
    train, dev = loads(inputs, params)
    found = forecast(params, train, dev, half=half, n_cards=chosen[0].number)
    cost = _cost(params, half=half)
    rows = sum(train.rows.values())
    memory = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in found.memory.items())
    lines = [
        f"{params.size}: {cost.shape.n_params:,} parameters, {cost.trained:,} of them trained, in "
        f"{'bf16' if half else 'fp32'}",
        f"{rows:,} rows: {found.steps:,} steps of {params.batch_size:,}, about {found.n_tokens:,} tokens "
        f"({CHARACTERS} characters each)",
        f"GiB on a card: {sum(found.memory.values()) / _GIB:.2f}: {memory}",
    ]
    for one in chosen:
        room = "fits" if found.fits(one) else "does not fit"
        share = f"{one.gpu.share_of_peak:.0%} of the peak assumed"
        lines.append(f"{one}: {_span(found.hours(one, half=half))} ({share}); {room} {one.gpu.memory_gib:g} GiB")
    if params.precision == "bf16" and (why := slow_here("bfloat16", params.device)):
        lines.append(f"precision=bf16, and {why}: to train here set precision=fp32")
    return lines


def hours(inputs: Inputs, params: StepParams, on: str) -> float | None:
    """Hours that these cards take for a training over these inputs; None for any other step, or an unknown shape.

    Raises:
        InputError: no such kind of card.
    """
    if not isinstance(params, Training) or _started_from(params) not in SHAPES:
        return None
    half = params.device == "cpu" or params.precision == "bf16"
    return forecast(params, *loads(inputs, params), half=half).hours(cards(on)[0], half=half)


def _span(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def forecast(params: Training, train: Load, dev: Load, *, half: bool, n_cards: int = 1) -> Forecast:
    """What a training on ``train``, chosen by ``dev``, would take of each card; ``half``: in bfloat16."""
    cost, steps = _cost(params, half=half), n_steps(train.rows, params)
    keepers = n_cards if params.sharding == "zero1" else 1
    n_tokens = round(_rows_seen(params, train) * train.per_row)
    evaluated = (params.epochs * params.evals_per_epoch + 1) * dev.n_tokens
    if isinstance(params, AdaptParams):
        held = max(params.micro_batch_tokens, params.max_passage_length)
        memory = cost.memory(held, params.mask_share * held, head=True, keepers=keepers)
        head = 2 * params.mask_share * cost.shape.width * cost.shape.vocabulary
        forward, learned = cost.forward(train.per_text) + head, cost.step(train.per_text) + 2 * head
    else:
        held, cached = _held(params, train)
        memory = cost.memory(held, keepers=keepers)
        forward, learned = cost.forward(train.per_text), cost.step(train.per_text, cached=cached)
    return Forecast(steps, n_tokens, memory, n_tokens * learned + evaluated * forward)


def _rows_seen(params: OptimiserParams, train: Load) -> float:
    """How many rows are learned from, those of several epochs each time."""
    if isinstance(params, TrainParams) and params.sampler:
        return n_gradients(train.rows, params) * params.batch_size
    mixture = params.mixture if isinstance(params, TrainParams) else {}
    weights = {name: mixture[name].weight if mixture else 1 for name in train.rows}
    return params.epochs * sum(weights[name] * n for name, n in train.rows.items())


def _held(params: TrainParams, train: Load) -> tuple[int, bool]:
    """Tokens whose activations are held at once, and whether that is through the gradient cache."""
    whole_batch = params.in_batch or any(objective.needs_batch for objective in params.objectives)
    of_batch = round(min(params.batch_size, sum(train.rows.values())) * train.per_row)
    together = of_batch if whole_batch else round(train.per_row)
    if together > params.graph_tokens:
        return max(params.graph_tokens, params.micro_batch_tokens, params.max_passage_length), True
    return min(of_batch, params.graph_tokens), False


def _started_from(params: OptimiserParams) -> str:
    return params.start.name if isinstance(params, StartParams) else backbone(params.size).name


def _cost(params: OptimiserParams, *, half: bool) -> Cost:
    return Cost(SHAPES[_started_from(params)], params.lora_rank, params.lora_targets, half, params.recompute)


def loads(inputs: Inputs, params: Training) -> tuple[Load, Load]:
    """Training and development rows, as the step of these parameters reads them."""
    if isinstance(params, AdaptParams):
        train, dev = texts_of(inputs, params)
        return _load_of_texts(train, params.max_passage_length), _load_of_texts(dev, params.max_passage_length)
    if isinstance(params, pretrain.PretrainParams):
        pairs = inputs["pairs"]
        layout = Layout("mean", 0)
        rows = partial(pretrain.training_rows, pairs, inputs.each("cloze"), params, layout)
        return _load(Examples(rows), params), _load(
            judged_dev.dev_set(inputs, partial(pretrain.dev_set, pairs))(layout), params
        )
    if isinstance(params, adapt_to_corpus.AdaptToCorpusParams):
        layout = Layout("mean", 0)
        rows = partial(adapt_to_corpus.training_rows, inputs["lists"], layout, params.unit)
        chosen_by = judged_dev.dev_set(inputs, partial(pretrain.dev_set, inputs["queries"]))
        return _load(Examples(rows), params), _load(chosen_by(layout), params)
    if isinstance(params, follow_instructions.FollowInstructionsParams):
        layout = Layout("mean", 0)
        rows = partial(follow_instructions.training_rows, inputs["tuples"], layout, params.n_negatives, params.unit)
        chosen_by = judged_dev.dev_set(inputs, partial(follow_instructions.dev_set, inputs["tuples"]))
        return _load(Examples(rows), params), _load(chosen_by(layout), params)
    layout = Layout("mean", 0, prefixes=triplets.prompts() if params.instruct else {}, needs_intent=params.instruct)
    builds = [inputs["triplets"], *inputs.each("further")]
    rows = partial(triplets.training_rows, builds, params, layout)
    chosen_by = judged_dev.dev_set(inputs, partial(triplets.dev_set, inputs["triplets"], params))
    return _load(Examples(rows), params), _load(chosen_by(layout), params)


def _load(examples: Examples, params: TrainParams) -> Load:
    longest = {"query": params.max_query_length, "positive": params.max_passage_length}
    rows: Counter[str] = Counter()
    n_texts, n_tokens = 0, 0.0
    for block in examples.blocks():
        rows.update(block["source"].to_pylist() if "source" in block.column_names else {"": len(block)})
        columns = [(block[name], most) for name, most in longest.items()]
        if "negatives" in block.column_names:
            columns.append((pc.list_flatten(block["negatives"]), params.max_passage_length))
        contrasts = (name for name in CONTRASTS if name in block.column_names)
        columns += [(pc.list_flatten(block[name]), params.max_query_length) for name in contrasts]
        n_texts += sum(len(texts) for texts, _ in columns)
        n_tokens += sum(_tokens(texts, most) for texts, most in columns)
    others = pa.array(examples.others, pa.string())
    rows = in_clusters(rows, params.clusters) if params.clusters else rows
    return Load(rows, n_texts + len(others), round(n_tokens + _tokens(others, params.max_passage_length)))


def in_clusters(rows: Mapping[str, int], k: int) -> Counter[str]:
    """Rows of each cluster, where the ``k`` of a source are alike in size."""
    parts = {(name, at): (n + at) // k for name, n in rows.items() for at in range(k)}
    return Counter({f"{name}/cluster-{at}": n for (name, at), n in parts.items() if n})


def _load_of_texts(texts: list[str], most: int) -> Load:
    return Load({"": len(texts)}, len(texts), round(_tokens(pa.array(texts, pa.string()), most)))


def _tokens(texts: pa.Array | pa.ChunkedArray, most: int) -> float:
    """About how many tokens these texts are, each cut at ``most``."""
    lengths = pc.divide(pc.utf8_length(texts.cast(pa.string())).cast(pa.float64()), CHARACTERS)
    return pc.sum(pc.min_element_wise(pc.add(lengths, _SPECIAL), float(most))).as_py() or 0.0
