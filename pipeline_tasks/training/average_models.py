"""Models that were trained from one start become one: the mean of their weights."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, added, step
from pipeline_tasks.models.sizes import get_size
from pipeline_tasks.models.start import Start, start_of

if TYPE_CHECKING:
    from torch import Tensor

    from pipeline_tasks.encoders.trunk import TrainableEncoder

NEAR = 0.5
"""Least cosine of weights that are taken to be of one start; those of two random starts are orthogonal."""


class AverageModelsParams(StepParams):
    """Which models, and how much each counts."""

    size: str = Field("33m", description="size of the models: 22m, 33m, 109m, 135m, 335m, 596m, 4b or 7.6b")
    models: tuple[str, ...] = Field(
        min_length=1, description="trained models to average: model/22m/pretrain@A, …; at least two, or one and a start"
    )
    weights: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (), description="weight of each model, in the same order; empty: equal"
    )
    start: str | None = added(
        None, description="untrained model to average in: a name of `foundry models` or the path of a folder"
    )
    start_weight: float = added(1.0, gt=0, description="weight of the untrained model")
    _start: Start | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _check(self) -> AverageModelsParams:
        get_size(self.size)
        if len(self.models) + bool(self.start) < 2:
            raise ValueError("one model has no mean: name at least two models, or one and a start")
        if len(set(self.models)) < len(self.models):
            raise ValueError(
                f"models={list(self.models)} names one twice: name each once, and say in weights what counts"
            )
        if self.weights and len(self.weights) != len(self.models):
            raise ValueError(f"{len(self.models)} models need as many weights, not {len(self.weights)}")
        return self

    def model_post_init(self, context: Any) -> None:
        """Look at the start once, so that one run is of one state of a folder."""
        self._start = start_of(self.start) if self.start else None

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the start's weights are in place of its name or path."""
        return super().identity() | ({"start": self._start.identity()} if self._start else {})

    @classmethod
    def from_identity(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """The parameters, and the start by its name."""
        found = super().from_identity(identity)
        return found | ({"start": start["name"]} if (start := found.get("start")) else {})

    def licences(self) -> dict[str, str]:
        """Those of the start's weights."""
        return dict(self._start.licences) if self._start else {}

    def start_in(self, scratch: Path) -> dict[str, Path]:
        """The folder of the untrained model by its name; nothing where none counts."""
        return {self._start.name: self._start.files(scratch / "start")} if self._start else {}


@step(
    reads={"models": From(None, "{item}", each="models")},
    writes=None,
    kind="reduce",
    dataset="model/{size}/average",
    version="4",
    image="gpu",
    memory_gib=8,
)
def average_models(inputs: Inputs, params: AverageModelsParams, run: Run) -> Path:
    """Save the mean of the weights of models that were trained from one start; it is served at the cost of one.

    Trainings that differ in their seed, their rows or their hyperparameters end at different places of one basin, and
    the mean of these is often better than each of them. All have to be asked alike: texts are cut where the first
    model's files say, instructions are the same in all. The untrained ``start`` may count as well, however it was
    asked: such a mean gives up some of what was learned, and keeps more of what the start could do.

    Source: Wortsman et al. 2022, "Model soups", the uniform soup, and "Robust fine-tuning of zero-shot models" for the
    start. Beyond DMRetriever.

    Raises:
        InputError: they are of different shapes, are asked differently, or not of one start.
    """
    from pipeline_tasks.training.model.export import export

    versions = inputs.each("models")
    names = [str(version.manifest.ref) for version in versions]
    folders = [version.lay_out(run.scratch / f"model-{place}") for place, version in enumerate(versions)]
    untrained = params.start_in(run.scratch)
    found = dict(zip(names, folders, strict=True)) | untrained
    given = [*(params.weights or [1.0] * len(names)), *[params.start_weight] * len(untrained)]
    encoder = average(found, given, untrained)
    card = {
        "name": f"{params.size} average",
        "summary": "Dense retriever, the mean of the weights of models that were trained from one start.",
        "models": ", ".join(f"{name} ({weight:g})" for name, weight in zip(found, given, strict=True)),
    }
    export(encoder, out := run.scratch / "model", card=card, layout=encoder.layout)
    return out


def average(folders: Mapping[str, Path], weights: Sequence[float], untrained: Container[str]) -> TrainableEncoder:
    """The weighted mean of models by name, float32; two of them are in memory at a time.

    Of those that are ``untrained`` it does not matter how they are asked.

    Raises:
        InputError: one is of another shape than the first, is asked differently, or is not of its start.
    """
    from pipeline_tasks.encoders.trunk import load

    (first, folder), *others = folders.items()
    encoder = load(folder)
    total = {name: tensor.mul_(weights[0] / sum(weights)) for name, tensor in _floats(encoder).items()}
    for (name, path), weight in zip(others, weights[1:], strict=True):
        other = load(path)
        if name not in untrained:
            _check_asked(first, encoder, name, other)
        found = _floats(other)
        _check_shapes(first, total, name, found)
        _check_start(first, total, name, found)
        for key, tensor in total.items():
            tensor.add_(found[key], alpha=weight / sum(weights))
    return encoder


def _floats(encoder: TrainableEncoder) -> dict[str, Tensor]:
    """All that is to be added up, by name; what several layers share is there once."""
    named = encoder.model.named_parameters
    again = {name for name, _ in named(remove_duplicate=False)} - {name for name, _ in named()}
    found = encoder.model.state_dict().items()
    return {name: tensor for name, tensor in found if tensor.is_floating_point() and name not in again}


def _check_asked(first: str, encoder: TrainableEncoder, name: str, other: TrainableEncoder) -> None:
    if encoder.layout.projection != other.layout.projection:
        raise InputError(
            f"the vectors of {name} and {first} go through different Dense modules after pooling: average models "
            "first, and order_dimensions of the mean"
        )
    looks = [getattr(one.model.config, "is_causal", None) for one in (encoder, other)]
    if looks[0] != looks[1]:
        raise InputError(f"{name} and {first} do not both look ahead (is_causal={looks[1]}, {looks[0]}): average alike")
    ours, theirs = (replace(one.layout, max_length=0, pad_id=0) for one in (encoder, other))
    if ours != theirs:
        raise InputError(
            f"{name} is asked otherwise than {first} ({_describe_layout(theirs)}, {_describe_layout(ours)}): "
            "average one stage's"
        )


def _describe_layout(layout: Any) -> str:
    prompts = f"{len(layout.prefixes)} prompts" + ("" if layout.pools_prefix else " left out of the mean")
    return f"{layout.pooling} pooling, {prompts}"


def _check_shapes(first: str, ours: Mapping[str, Tensor], name: str, theirs: Mapping[str, Tensor]) -> None:
    shapes = ({key: tuple(tensor.shape) for key, tensor in found.items()} for found in (ours, theirs))
    if differ := sorted({key for key, _ in set.symmetric_difference(*(set(found.items()) for found in shapes))}):
        raise InputError(f"{name} is of another shape than {first}, {differ[0]!r} for one: average models of one start")


def _check_start(first: str, ours: Mapping[str, Tensor], name: str, theirs: Mapping[str, Tensor]) -> None:
    """Refuse weights that are nowhere near the sum so far; matrices alone, as all models begin vectors alike."""
    matrices = [key for key, tensor in ours.items() if tensor.ndim >= 2]
    inner, one, other = (
        sum(float((a[key].double() * b[key].double()).sum()) for key in matrices)
        for a, b in ((ours, theirs), (ours, ours), (theirs, theirs))
    )
    cosine = inner / max((one * other) ** 0.5, 1e-30)
    if not cosine > NEAR:
        raise InputError(
            f"the weights of {name} and {first} have a cosine of {cosine:.2f}: they were not trained from one start, "
            "and their mean would be no model; average models of one start"
        )
