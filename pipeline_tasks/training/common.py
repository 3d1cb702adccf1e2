"""What all training stages share: reading rows, how queries are asked, training, choosing and saving."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.encoders.devices import devices_of
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.models.start import TrainedStartParams
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.params import TrainParams, Unit

if TYPE_CHECKING:
    from pipeline_tasks.training.loop import Report, TrainResult


log = logging.getLogger(__name__)
_ROWS_AT_ONCE = 4096


def of_split(version: Version, columns: Sequence[str], split: str) -> Iterator[pa.Table]:
    """The rows of that split, a block at a time."""
    for rows in version.batches([*columns, "split"], _ROWS_AT_ONCE):
        yield rows.filter(pc.field("split") == split).select(columns)


def n_rows(version: Version, split: str) -> int:
    """How many rows of that split there are."""
    return sum(len(rows) for rows in of_split(version, [], split))


def n_training_rows(versions: Sequence[Version], option: str) -> int:
    """How many training rows the datasets have that ``option`` names.

    Raises:
        InputError: one has none, and would add nothing.
    """
    found = [n_rows(version, "train") for version in versions]
    for version, n in zip(versions, found, strict=True):
        if not n:
            raise InputError(
                f"{option}: no row of {version.manifest.ref} is of the split train; read it in with "
                "read_passages --set trains=true, or leave it out"
            )
    return sum(found)


def asked(rows: pa.Table, layout: Layout) -> dict[str, Any]:
    """The columns ``queries``, ``prompts`` and ``answers`` of a block, as ``layout`` wants queries asked.

    Args:
        rows: with columns ``query`` and ``intent``; ``instruction``, where there is one, goes before the intent's.
        layout: of the model that is asked.
    """
    told = (rows[name].to_pylist() for name in ("intent", "instruction") if name in rows.column_names)
    before = [layout.query_prefix(*of_query) for of_query in zip(*told, strict=True)]
    prefixed = [prefix + query for prefix, query in zip(before, rows["query"].to_pylist(), strict=True)]
    own = own_words(rows["query"], layout)
    return {"queries": prefixed, "prompts": None if layout.pools_prefix else before, "answers": own}


def own_words(queries: pa.ChunkedArray, layout: Layout) -> pa.Array:
    """Of each query a list of its words as a passage: where a training has that passage too, it is no wrong answer."""
    as_passages = one_array(given(queries, layout))
    return pa.ListArray.from_arrays(np.arange(len(queries) + 1, dtype=np.int32), as_passages)


def given(passages: pa.ChunkedArray, layout: Layout) -> pa.ChunkedArray | pa.Array:
    """Passages, or lists of them, with what ``layout`` puts before each.

    Raises:
        InputError: its means leave that out; training does so for queries alone.
    """
    prefix = layout.passage_prefix()
    if not prefix:
        return passages
    if layout.pooling == "mean" and not layout.pools_prefix:
        raise InputError(
            f"a model that takes {prefix!r} before passages is to leave that out of its mean, which training does for "
            "queries alone: set pool_instruction=true, or start from another model"
        )
    if not pa.types.is_list(passages.type):
        return pc.binary_join_element_wise(prefix, passages.cast(pa.string()), "")
    lists = passages.combine_chunks()
    ends = np.concatenate([[0], np.cumsum(lists.value_lengths())]).astype(np.int32)
    return pa.ListArray.from_arrays(ends, pc.binary_join_element_wise(prefix, lists.flatten().cast(pa.string()), ""))


def sources(rows: pa.Table, unit: Unit, own: pa.ChunkedArray | str) -> pa.ChunkedArray | pa.Array:
    """What the rows of a block are of, as a mixture or a sampler takes them: ``own``, their intents, or ``all``."""
    if unit == "intent":
        return rows["intent"]
    if unit == "all":
        return pa.repeat("all", len(rows))
    return pa.repeat(own, len(rows)) if isinstance(own, str) else own.fill_null("")


def general_prefixes(layout: Layout) -> dict[str, str]:
    """What goes before every query and before every passage; instructions of intents are none of it."""
    return {use: layout.prefixes[use] for use in ("query", "passage") if layout.prefixes.get(use)}


def folder_of_start(inputs: Inputs, params: TrainedStartParams, run: Run) -> tuple[Path, dict[str, str]]:
    """The folder of the version ``init`` where one is given, else of the backbone; and what a card says of either.

    Raises:
        InputError: a model to start from is named and is not there, or a backbone that it was not made from and that
            would have no effect.
    """
    if "init" not in inputs:
        if params.start_from:
            raise InputError(f"start_from={params.start_from[0]!r} is not in the store: train it, or leave it out")
        return params.start.files(run.scratch / "start"), {"backbone": params.start.name}
    init = inputs["init"]
    known = backbone_of(run.store, init.manifest)
    if params.backbone and known and _weights(known) != _weights(params.start.identity()):
        raise InputError(
            f"backbone={params.backbone!r} has no effect beside {init.manifest.ref}, which was made from "
            f"{known['name']}: leave one of them out"
        )
    told = {"backbone": known["name"]} if known else {}
    return init.lay_out(run.scratch / "init"), told | {"initialised from": str(init.manifest.ref)}


def backbone_of(store: Store, model: Manifest) -> dict[str, Any]:
    """The identity of what the first of a model's chain started from; none where that is not known any more.

    A mean is of models that started from the same.
    """
    while before := model.inputs.get("init") or model.inputs.get("models"):
        try:
            model = load_manifest(store, Ref.parse(before[0]))
        except InputError:  # of a version that is gone
            return {}
    return model.params.get("backbone") or {}


def _weights(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Which weights the identity of a start means, whatever libraries read them."""
    return {name: identity.get(name) for name in ("name", "sha256", "hub")}


def train_and_export(
    examples: Examples,
    dev_set: Callable[[Layout], Examples],
    start: tuple[Path, Layout],
    params: TrainParams,
    run: Run,
    card: Mapping[str, Any],
    layout: Layout,
    targets: Callable[[Layout], Mapping[str, Examples]],
) -> Path:
    """Train, export the best checkpoint below the run's scratch folder, and return that folder.

    Args:
        examples: training rows, asked as ``layout`` says.
        dev_set: the development queries, asked as a layout says.
        start: folder of the weights to start from, and how they want to be asked: so they are scored, and so they are
            exported where no later checkpoint is as good.
        params: hyperparameters.
        run: its counters tell which step won, its score and that of the start.
        card: facts for the model card.
        layout: how the trained model wants to be asked.
        targets: the sets that a sampler is guided by, asked as a layout says.
    """
    from pipeline_tasks.training import curve, trajectory
    from pipeline_tasks.training.contrastive import train
    from pipeline_tasks.training.export import export

    folder, layout_of_start = start
    with reported(run) as report:
        result = train(
            examples,
            dev_set(layout),
            folder,
            params,
            run.scratch / "checkpoints",
            report,
            dev_of_start=dev_set(layout_of_start),
            targets=targets(layout),
            threads=settings().threads,
            devices=devices_of(params.device),
        )
    count(result, run, "dev_ndcg_at_10")
    out = run.scratch / "model"
    facts = dict(card) | {"checkpoint": chosen(result, "NDCG@10"), "training": params.hyperparameters()}
    asked_as = layout if result.best_step else layout_of_start
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
            "split dev",
            run.label,
        )


def chosen(result: TrainResult, metric: str) -> str:
    """Which step's weights these are, and why, in a few words."""
    step = f"step {result.best_step} of {result.steps}"
    if result.best_score is None:
        return f"{step}, without development data to choose by"
    scores = f"{metric} {result.best_score:.4f} on development data; {result.scores[0][1]:.4f} at the start"
    return f"{step}, {scores}" if result.best_step else f"{step}, the start: no later one scored as high ({scores})"
