"""Weights and their optimiser: a step down a gradient, and back to where both were."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.compute.optimiser import Optimiser
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams

_ROWS_NAMED = 10


@dataclass(frozen=True)
class Mark:
    """A copy of the weights that train, and of the optimiser's moments that this process keeps."""

    weights: list[Tensor]
    moments: list[dict[str, Tensor]]


class Descent:
    """Changes the weights of a model; several processes make the same calls."""

    def __init__(self, model: torch.nn.Module, params: OptimiserParams, peers: Peers = ALONE) -> None:
        self.params = params
        self._model = model
        self._weights = [weights for weights in model.parameters() if weights.requires_grad]
        self.optimiser = Optimiser(self._weights, params, peers)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.optimiser.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.optimiser.rate = rate

    @contextmanager
    def at(self, rate: float) -> Iterator[None]:
        """Steps are at another learning rate meanwhile."""
        before, self.rate = self.rate, rate
        try:
            yield
        finally:
            self.rate = before

    def learn(self, add: Callable[[], float], rows: np.ndarray, step: int) -> float:
        """One step of the optimiser.

        Args:
            add: adds the gradients of a batch's mean loss to the weights, and returns that loss.
            rows: of the batch, for whoever has to look at them.
            step: of the run.

        Raises:
            InputError: the loss, or its gradient, is not finite.
        """
        self._model.train()
        loss = add()
        self._check("loss", loss, rows, step)
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self.params.max_grad_norm)
        self._check("gradient", float(getattr(norm, "full_tensor", lambda: norm)()), rows, step)
        self.optimiser.step()
        return loss

    def _check(self, what: str, value: float, rows: np.ndarray, step: int) -> None:
        if not math.isfinite(value):
            named = ", ".join(map(str, sorted(rows)[:_ROWS_NAMED])) + (", ..." if len(rows) > _ROWS_NAMED else "")
            raise InputError(
                f"the {what} at step {step} is {value}: lower learning_rate ({self.params.learning_rate}), or look at "
                f"its {len(rows)} training rows: {named}"
            )

    def mark(self) -> Mark:
        """Where weights and optimiser are."""
        return Mark([weights.detach().clone() for weights in self._weights], self.optimiser.moments())

    @torch.no_grad()
    def back(self, mark: Mark) -> None:
        """Put weights and optimiser where they were, to the bit."""
        for weights, kept in zip(self._weights, mark.weights, strict=True):
            weights.copy_(kept)
        self.optimiser.back(mark.moments)

    @torch.no_grad()
    def since(self, mark: Mark) -> list[Tensor]:
        """How far each weight has come since."""
        return [weights - kept for weights, kept in zip(self._weights, mark.weights, strict=True)]

    @torch.no_grad()
    def go(self, way: Sequence[Tensor], share: float) -> None:
        """Add ``share`` of ``way`` to the weights."""
        for weights, part in zip(self._weights, way, strict=True):
            weights.add_(part, alpha=share)

    @torch.no_grad()
    def note(self, way: Sequence[Tensor]) -> None:
        """Let the optimiser's moments take ``way`` in as a gradient, and give it up; the weights stay."""
        for weights, part in zip(self._weights, way, strict=True):
            weights.grad = part
        with self.at(0.0):
            self.optimiser.step()

    def gradients(self, add: Callable[[], float]) -> list[Tensor]:
        """Those that ``add`` adds to the weights; neither weights nor optimiser change."""
        add()
        found = [torch.zeros_like(w) if w.grad is None else w.grad.detach() for w in self._weights]
        self.optimiser.forget()
        return found


@contextmanager
def told_when_full(params: OptimiserParams, step: int) -> Iterator[None]:
    """The block, which says what to change where it takes more memory than a GPU has.

    Raises:
        InputError: it does.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        rows = getattr(getattr(params, "sampler", None), "target_batch", None)
        some = f"micro_batch_tokens ({params.micro_batch_tokens})" + (
            f", target_batch of the sampler ({rows})" * bool(rows)
        )
        raise InputError(
            f"the GPU's memory is full at step {step}: lower {some}, or graph_tokens where the stage has it, or set "
            "recompute=true, or a sharding where there are several GPUs"
        ) from error


@contextmanager
def told_when_too_large(params: OptimiserParams) -> Iterator[None]:
    """The block, in which a model gets to a device, which says what to do where a GPU has no room for it.

    Raises:
        InputError: it has none.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        adapters = "" if params.lora_rank else "train adapters (lora_rank), "
        raise InputError(
            f"the GPU's memory has no room for the weights of a {params.size}: {adapters}use a larger card, end what "
            "else runs on it, or set sharding='fsdp' where there are several GPUs"
        ) from error


def along(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The inner product of two gradients or ways."""
    return sum(float(torch.sum(a * b)) for a, b in zip(one, other, strict=True))


def length(one: Sequence[Tensor]) -> float:
    """The Euclidean length of a gradient or way."""
    return math.sqrt(along(one, one))
