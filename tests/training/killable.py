"""A training run for a process of its own: tells each step it has done, and exports when it is through.

And for a training of several processes what kills one of them.
"""

from multiprocessing import active_children
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.curves import curve
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.tokens import Texts
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.params import TrainParams


def run(
    told: Connection,
    rows: Examples,
    dev: Examples,
    backbone: Path,
    params: TrainParams,
    work: Path,
    out: Path,
) -> None:
    """Train, sending the number of each finished step; the export is the last thing done."""
    result = train(rows, dev, backbone, params, work, lambda step, steps, facts: told.send(step))
    export(result.encoder, out, card={"name": "killed"}, layout=Layout("mean", 32))
    curve.save(result, params, out)


def kill_one(step: int, *_: object) -> None:
    """Told the steps of a training by several processes, kill one of them after the third."""
    if step == 3:
        active_children()[-1].kill()


def adapting(told: Connection, backbone: Path, texts: Texts, dev: list[str], params: AdaptParams, work: Path) -> None:
    """Adapt, sending the number of each finished step."""
    adapt(backbone, texts, dev, params, work, lambda step, steps, facts: told.send(step))
