"""Checkpoints that appear whole or not at all.

One file holds all a run needs to go on: weights, AdamW state, step, scores, losses. The best weights so far
lie in a file of their own, which the checkpoint names; it is written first and older ones are removed last,
so at any moment the newest checkpoint and what it names are complete.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.parallel.peers import Peers

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """How far a run has come; batches, learning rate and dropout follow from ``step`` and from what a sampler knows."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    best_step: int | None = None
    best_score: float | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


def resume_step(folder: Path, step: int, peers: Peers) -> int:
    """The step at which a call goes on; where its processes have done the work already, the one that they began at."""
    noted = folder / "taken_over_at"
    if peers.done:
        return int(noted.read_text("utf-8"))
    if step:
        log.info("resuming at step %d", step)
    if peers.count > 1 and peers.leads:
        noted.write_text(f"{step}", "utf-8")
    return step


def broadcast_checkpoint(folder: Path, peers: Peers) -> None:
    """Let ``folder`` of every node have the leader's newest checkpoint, no other one, and nothing half-written."""
    if peers.local_rank == 0:
        for part in folder.glob("*.part"):
            part.unlink()
    if not peers.on_several_nodes:
        return
    newest = _newest(folder) if peers.leads else None
    name, size = peers.from_leader((newest.name, newest.stat().st_size) if newest else ("", 0))
    receives = not peers.leads and peers.local_rank == 0
    if receives:
        for stale in folder.glob("step-*.pt"):
            stale.unlink()
    if name:
        part = folder / f"{name}.part"
        peers.send_file(newest or part, size)
        if receives:
            durable.replace(part, folder / name)
    peers.meet()


def save_best(folder: Path, step: int, weights: Mapping[str, torch.Tensor]) -> None:
    """Keep ``weights`` as those of ``step``; counts once a checkpoint names the step."""
    _write_whole(_best(folder, step), dict(weights))


def load_best(folder: Path, step: int) -> dict[str, torch.Tensor]:
    """The weights kept for ``step``; see :func:`load` for errors."""
    return _read_whole(_best(folder, step))


def save(
    folder: Path,
    fingerprint: str,
    progress: Progress,
    weights: Mapping[str, Any],
    optimizer: Mapping[str, Any],
) -> None:
    """Commit the state of a run, then remove the checkpoint before it."""
    state = {
        "fingerprint": fingerprint,
        "progress": vars(progress),
        "weights": dict(weights),
        "optimizer": dict(optimizer),
    }
    current = folder / f"step-{progress.step:08d}.pt"
    _write_whole(current, state)
    kept = {current, _best(folder, progress.best_step)} if progress.best_step is not None else {current}
    for stale in {*folder.glob("step-*.pt"), *folder.glob("best-*.pt")} - kept:
        stale.unlink()


def load(folder: Path, fingerprint: str) -> tuple[Progress, dict[str, Any], dict[str, Any]] | None:
    """The newest checkpoint as (progress, weights, optimizer state), or None where there is none.

    Tensors are mapped from the file: several processes of a machine read it without a copy each.

    Raises:
        InputError: the checkpoint is damaged, or of a run with other data, backbone, hyperparameters or threads.
    """
    newest = _newest(folder)
    if newest is None:
        return None
    state = _read_whole(newest, mmap=True)
    if state["fingerprint"] != fingerprint:
        raise InputError(
            f"{newest} belongs to another run ({state['fingerprint'][:12]}, not {fingerprint[:12]}), of other data, "
            "weights or parameters, or with another FOUNDRY_THREADS: go on as it was begun, or empty this work folder"
        )
    return Progress(**state["progress"]), state["weights"], state["optimizer"]


def _newest(folder: Path) -> Path | None:
    return max(folder.glob("step-*.pt"), default=None)


def _best(folder: Path, step: int) -> Path:
    return folder / f"best-{step:08d}.pt"


def _read_whole(path: Path, *, mmap: bool = False) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # by where the damage is, PyTorch raises one of a dozen, and for want of memory as well
        if _is_whole(path):
            raise
        raise InputError(
            f"{path} is damaged ({error!r:.150}): delete the .pt files of that folder, and the training begins again"
        ) from error


def _is_whole(path: Path) -> bool:
    """Whether every member of the archive has the bytes that were written."""
    try:
        with ZipFile(path) as archive:
            return archive.testzip() is None
    except OSError:
        raise
    except Exception:  # by where the damage is
        return False


def _write_whole(path: Path, state: Any) -> None:
    part = path.with_suffix(".part")
    try:
        with part.open("wb") as file:
            torch.save(state, file)
        durable.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
