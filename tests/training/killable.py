"""A training run for a process of its own: tells each step it has done, and exports when it is through.

And for a training of several processes, and for a chain of stages, what kills one of them and where.
"""

import os
from collections.abc import Callable
from importlib import import_module
from itertools import count
from multiprocessing import active_children
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL

from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training import loop
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.curves import curve
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.tokens import Texts
from pipeline_tasks.training.distill import distill
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.parallel.peers import Peers
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.pretrain import pretrain

CHAIN: tuple[tuple[Step, dict], ...] = (
    (pretrain, {"views": ["source"]}),
    (finetune, {"alpha": 0.5}),
    (finetune, {"alpha": 0.65}),
    (distill, {}),
)


def run(
    told: Connection,
    rows: Examples,
    dev: Examples,
    backbone: Path,
    params: TrainParams,
    work: Path,
    out: Path,
    last: int = 0,
) -> None:
    """Train, sending the number of each finished step, and die after the ``last``; the export is the last thing."""

    def tell(step: int, *_: object) -> None:
        told.send(step)
        if step == last:
            die()

    result = train(rows, dev, backbone, params, work, tell)
    export(result.encoder, out, card={"name": "killed"}, layout=Layout("mean", 32))
    curve.save(result, params, out)


def die() -> None:
    """End as the kernel ends a process for want of memory."""
    os.kill(os.getpid(), SIGKILL)


def kill_one(step: int, *_: object) -> None:
    """Told the steps of a training by several processes, kill one of them after the third."""
    if step == 3:
        active_children()[-1].kill()


def adapting(told: Connection, backbone: Path, texts: Texts, dev: list[str], params: AdaptParams, work: Path) -> None:
    """Adapt, sending the number of each finished step."""
    adapt(backbone, texts, dev, params, work, lambda step, steps, facts: told.send(step))


def die_after(rank: int, last: int, work: Callable, peers: Peers, tell: Callable) -> object:
    """Do ``work``, but the process of that rank dies: the leader after its ``last`` step, another in the step then."""
    real = loop.learning_rate

    def rate(step: int, *rest: object) -> float:
        if step == last:
            die()
        return real(step, *rest)

    def told(step: int, *rest: object) -> None:
        if step == last:
            die()
        tell(step, *rest)

    if peers.rank != rank or peers.done:
        return work(peers, tell)
    loop.learning_rate = rate
    return work(peers, told)


def stages(
    store: LocalStore, backbone: Path, chosen: dict, fatal: tuple[str, str] | None = None, n: int = 0
) -> Outcome:
    """Run the chain, each stage on the model before it; dies at call ``n`` of a function, named behind its module."""
    os.environ["FOUNDRY_THREADS"] = "1"  # where others use the cores, threads that meet at every product crawl
    settings.cache_clear()
    if fatal:
        module, name = import_module(fatal[0]), fatal[1]
        real, numbers = getattr(module, name), count(1)
        setattr(module, name, lambda *args, **named: die() if next(numbers) == n else real(*args, **named))
    start, before = {"backbone": str(backbone)}, {}
    for stage, own in CHAIN:
        made = run_job(store, plan(store, stage, chosen | own | start, before))
        start, before = {}, {"init": [str(made.ref)]}
    return made
