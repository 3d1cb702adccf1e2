"""What all training stages share: what they start from, training, choosing a checkpoint and saving it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.encoders.devices import devices_of
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.models.start import TrainedStartParams
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.model.starting_model import backbone_of, weights_identity
from pipeline_tasks.training.params import TrainParams

if TYPE_CHECKING:
    from pipeline_tasks.training.loop import Report, TrainResult


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageRows:
    """Rows of a training stage, as its step reads them and as its forecast counts them.

    Attributes:
        train: rows to learn from, asked as the trained model wants it.
        dev: the development queries, asked as a layout says.
        targets: the sets that a sampler is guided by, asked as a layout says.
    """

    train: Examples
    dev: Callable[[Layout], Examples]
    targets: Callable[[Layout], Mapping[str, Examples]]

    @classmethod
    def of(
        cls, inputs: Inputs, train: Callable[[], Iterable[pa.Table]], own_dev: Callable[[Layout], Examples]
    ) -> StageRows:
        """With the judged sets among ``inputs``; without one to choose by, that is ``own_dev``."""
        return cls(Examples(train), judged_dev.dev_set(inputs, own_dev), judged_dev.target_sets(inputs))


@dataclass(frozen=True)
class StartingPoint:
    """Weights to start from.

    Attributes:
        folder: where they lie.
        layout: how they want to be asked: so they are scored, and so exported where no later checkpoint is as good.
    """

    folder: Path
    layout: Layout

    @classmethod
    def of(cls, folder: Path, found: Layout, layout: Layout) -> StartingPoint:
        """Asked as ``found`` there; plain weights, which say nothing of it, as they are trained: by ``layout``."""
        return cls(folder, found if (folder / "modules.json").is_file() else layout)


def folder_of_start(inputs: Inputs, params: TrainedStartParams, run: Run) -> tuple[Path, dict[str, str]]:
    """The folder of the version ``init`` where one is given, else of the backbone; and what a card says of either.

    Raises:
        InputError: a model to start from is named and is not there, or a backbone that it was not made from and that
            would have no effect, or a backbone is to go on learning that pre-training alone makes an embedder of.
    """
    if "init" not in inputs:
        if params.start_from:
            raise InputError(f"start_from={params.start_from[0]!r} is not in the store: train it, or leave it out")
        return _backbone(params, run), {"backbone": params.start.name}
    init = inputs["init"]
    check_start(init, params)
    known = backbone_of(run.store, init.manifest)
    facts = {"backbone": known["name"]} if known else {}
    return init.lay_out(run.scratch / "init"), facts | {"initialised from": str(init.manifest.ref)}


def check_start(init: Version, params: TrainedStartParams) -> None:
    """Refuse a backbone that would have no effect beside the model to start from.

    Raises:
        InputError: that model was made from another one.
    """
    known = backbone_of(init.store, init.manifest)
    if params.backbone and known and weights_identity(known) != weights_identity(params.start.identity()):
        raise InputError(
            f"backbone={params.backbone!r} has no effect beside {init.manifest.ref}, which was made from "
            f"{known['name']}: leave one of them out"
        )


def _backbone(params: TrainedStartParams, run: Run) -> Path:
    """Its folder; refuses a decoder that was not adapted: pre-training looks at it itself.

    Raises:
        InputError: it is one, or is not there.
    """
    from pipeline_tasks.encoders.trunk import load
    from pipeline_tasks.training.model.open_model import check_adapted

    pretrains = hasattr(params, "causal")
    folder = params.start.files(run.scratch / "start")
    if not pretrains and layout_of(folder).pooling != "last":
        check_adapted(load(folder, dtype="auto"), params.instead)
    return folder


def train_and_export(
    rows: StageRows, start: StartingPoint, params: TrainParams, run: Run, card: Mapping[str, Any], layout: Layout
) -> Path:
    """Train, export the best checkpoint below the run's scratch folder, and return that folder.

    Args:
        rows: to learn from, asked as ``layout`` says, and to choose by.
        start: weights to start from.
        params: hyperparameters.
        run: its counters tell which step won, its score and that of the start.
        card: facts for the model card.
        layout: how the trained model wants to be asked.
    """
    from pipeline_tasks.training.contrastive import train
    from pipeline_tasks.training.curves import curve, trajectory
    from pipeline_tasks.training.model.export import export

    with reported(run) as report:
        result = train(
            rows.train,
            rows.dev(layout),
            start.folder,
            params,
            run.scratch / "checkpoints",
            report,
            dev_of_start=rows.dev(start.layout),
            length_of_start=start.layout.max_length,
            targets=rows.targets(layout),
            threads=settings().threads,
            devices=devices_of(params.device),
        )
    count(result, run, "dev_ndcg_at_10")
    out = run.scratch / "model"
    facts = dict(card) | {"checkpoint": chosen(result, "NDCG@10"), "training": params.hyperparameters()}
    asked_as = layout if result.best_step else start.layout
    export(result.encoder, out, card=facts, layout=asked_as, keep_adapters=params.keep_adapters)
    curve.save(result, params, out)
    trajectory.save(result.trajectory, out)
    return out


@contextmanager
def reported(run: Run) -> Iterator[Report]:
    """What tells the progress of a training: its steps, loss, learning rate, last score, tokens a second, memory."""
    with run.progress(0, "steps") as meter:
        known: dict[str, float] = {}

        def report(step: int, steps: int, facts: dict[str, float]) -> None:
            meter.total = steps
            if not meter.done:  # what came before the first step that is told, and it, say nothing of the rate
                meter.begin_at(step)
            known.update(facts)
            meter.advance(step - meter.done, ", ".join(f"{name} {value:.4g}" for name, value in known.items()))

        yield report


def count(result: TrainResult, run: Run, metric: str) -> None:
    """Say in the counters how a training went; ``metric`` is what development data were scored by."""
    run.count("optimiser_steps", result.steps)
    run.count("resumed_at_step", result.resumed_at)
    run.count("first_loss", round(result.losses[0], 4))
    run.count("last_loss", round(result.losses[-1], 4))
    run.count("best_step", result.best_step)
    if result.best_score is not None:
        run.count(metric, round(result.best_score, 4))
        run.count(f"{metric}_of_start", round(result.scores[0][1], 4))
    else:
        log.warning(
            "%s: there are no development data to choose a checkpoint by, and it is the last one: have rows of the "
            "split dev (dev_fraction or dev_documents of hold_out_documents)",
            run.label,
        )


def chosen(result: TrainResult, metric: str) -> str:
    """Which step's weights these are, and why, in a few words."""
    step = f"step {result.best_step} of {result.steps}"
    if result.best_score is None:
        return f"{step}, without development data to choose by"
    scores = f"{metric} {result.best_score:.4f} on development data; {result.scores[0][1]:.4f} at the start"
    return f"{step}, {scores}" if result.best_step else f"{step}, the start: no later one scored as high ({scores})"
