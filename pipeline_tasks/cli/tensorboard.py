"""``foundry tensorboard``: how models were trained, for whoever wants to see it drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import store
from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.query import ALL_ROWS, query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store.disk import space_in, writable
from pipeline_tasks.core.versions import resolve

_LATEST = "SELECT DISTINCT dataset, version FROM training_curves JOIN versions USING (dataset, version) WHERE is_latest"
_CURVE = """
SELECT epoch(created_at) AS wall_time, optimiser_step, loss, learning_rate, dev_score
FROM training_curves JOIN versions USING (dataset, version) WHERE dataset = ? AND version = ? ORDER BY optimiser_step
"""


def tensorboard_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the --logdir of tensorboard")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL[@VERSION]]…", help="models, such as model/33m/finetune; none: the latest of all"
        ),
    ] = None,
) -> None:
    """Write training curves as logs that TensorBoard reads, one run for each version."""
    from pipeline_tasks.training.curves.tensorboard import events

    found = store()
    if names:
        refs = [resolve(found, Ref.parse(name)) for name in names]
    else:
        refs = [Ref(**row) for row in query(found, _LATEST, rows=False, max_rows=ALL_ROWS).to_pylist()]
    for ref in refs:
        rows = query(found, _CURVE, [ref.dataset, ref.version], rows=False, max_rows=ALL_ROWS)
        if not rows.num_rows:
            raise InputError(f"{ref} has no training curve; name a model that a training step made, or make it again")
        created = rows["wall_time"][0].as_py()
        run = folder / ref.dataset / str(ref.version)
        with space_in(folder), writable(folder, "name another folder"):
            run.mkdir(parents=True, exist_ok=True)
            part = run / "writing"
            part.write_bytes(b"".join(events(rows.drop_columns("wall_time").to_pylist(), created)))
            durable.replace(part, run / f"events.out.tfevents.{int(created)}.foundry")
    typer.echo(f"{len(refs):,} curves in {folder}: tensorboard --logdir {folder}")
