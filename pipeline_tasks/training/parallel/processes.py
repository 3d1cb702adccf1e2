"""The processes of one training: one a device on this node, and beside them those of other nodes of a team."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from socket import gethostname
from time import monotonic
from typing import Any, TypeVar

import torch
from torch import distributed

from pipeline_tasks.core.engines.local import end_with_parent
from pipeline_tasks.core.errors import FoundryError, InputError, TransientError
from pipeline_tasks.core.execution.team import PartDone, member
from pipeline_tasks.training.parallel.meeting import Meeting, hold_meeting
from pipeline_tasks.training.parallel.peers import ALONE, Peers

_PATIENCE = timedelta(days=1)
"""How long a process waits for the others, the leader's evaluations among it; a dead one is noticed by the caller."""

_LAST_WORDS = 20.0
"""Seconds that the others have to say why, or to end, once one has failed where it met them."""

Tell = Callable[..., None]
Result = TypeVar("Result")


def run_on_devices(work: Callable[[Peers, Tell], Result], devices: Sequence[str], tell: Tell) -> Result:
    """Run ``work`` in a process on each device, then once more here to read its result; with one device: here, alone.

    The second call, with ``Peers(done=True)``, must find the work done: it reads the result from the checkpoints that
    the processes left, and only the first of several nodes returns it. The first: :func:`run_in_processes`.

    Raises:
        PartDone: in the others.
        InputError: one of several nodes has no device.
    """
    here = member()
    if here.count > 1 and not devices:
        raise InputError(
            f"{gethostname()}, one of {here.count} nodes of a training, sees no device that it is for: use "
            "device='cpu', name its cards in FOUNDRY_DEVICES, or see `nvidia-smi` there"
        )
    if here.count == 1 and len(devices) < 2:
        with _on(*devices):
            return work(ALONE, tell)
    run_in_processes(work, devices, tell)
    if not here.leads:
        raise PartDone
    return work(Peers(done=True), tell)


def _on(device: str = "cpu") -> AbstractContextManager[object]:
    """The block, in which ``cuda`` without a number is this GPU."""
    return torch.cuda.device(device) if device.startswith("cuda") and torch.cuda.is_available() else nullcontext()


def run_in_processes(work: Callable[[Peers, Tell], object], devices: Sequence[str], tell: Tell) -> None:
    """Do ``work`` in a process per device, until all are through.

    Args:
        work: given the process's place among its peers, and what tells the caller how far it is; can be pickled.
        devices: ``cuda:0`` and so on, or ``cpu`` as often as there are to be processes; of this node.
        tell: is called with what the leader tells.

    Raises:
        FoundryError: what a process raised.
        RuntimeError: what else a process raised, which is nothing that another try would mend.
        TransientError: a process ended without a word, often for want of memory.
    """
    with hold_meeting(member(), len(devices), _PATIENCE) as meeting:
        _do(work, devices, meeting, tell)


def _do(work: Callable[[Peers, Tell], object], devices: Sequence[str], meeting: Meeting, tell: Tell) -> None:
    context = get_context("spawn")
    hears, speaks = context.Pipe(duplex=False)
    pickled = pickle.dumps(work)
    processes = [
        context.Process(target=_take_part, args=(pickled, device, meeting.peers(place), meeting, speaks))
        for place, device in enumerate(devices)
    ]
    for process in processes:
        process.start()
    speaks.close()
    try:
        failed = _listen(hears, processes, tell)
        ended = {place: process.exitcode for place, process in enumerate(processes) if process.exitcode}
        for one in failed:
            if not one.at_meeting:
                raise one.error(devices)
        mute = [place for place in ended if place not in {one.place for one in failed}]
        for place in sorted(mute, key=lambda place: ended[place]):
            raise TransientError(
                f"the training process on {devices[place]} ended with {ended[place]}, often for want of "
                "memory: try again, it goes on from its last checkpoint"
            )
        for one in failed:
            raise one.error(devices)
    finally:
        for process in processes:
            process.kill()
            process.join()


@dataclass(frozen=True)
class _Failed:
    """A process raised what nobody foresaw.

    Attributes:
        place: of the process.
        told: its traceback.
        at_meeting: it failed where it met the others, and may have lost one of them that failed or ended before.
    """

    place: int
    told: str
    at_meeting: bool

    def error(self, devices: Sequence[str]) -> RuntimeError:
        """What the caller is told."""
        return RuntimeError(f"the training process on {devices[self.place]} failed:\n{self.told}")


def _is_at_meeting(error: Exception) -> bool:
    """Whether it comes from PyTorch's exchange between processes, and not from a disk on the way there."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    where = frame.f_globals["__name__"]
    return isinstance(error, RuntimeError) and where.startswith((distributed.__name__, Peers.__module__))


def _listen(hears: Connection, processes: Sequence[BaseProcess], tell: Tell) -> list[_Failed]:
    """Hear what the processes say until all have ended, or one has failed: the others may wait for it for ever.

    Returns:
        what they failed with, the first one's first.
    """
    failed: list[_Failed] = []
    speaking, over = [hears], None

    def hear() -> None:
        while speaking and hears.poll():
            try:
                said = hears.recv()
            except EOFError:
                speaking.clear()
                return
            if isinstance(said, BaseException):
                raise said
            if isinstance(said, _Failed):
                failed.append(said)
            else:
                tell(*said)

    while alive := [process.sentinel for process in processes if process.is_alive()]:
        if failed and over is None:
            over = monotonic() + _LAST_WORDS
        ready = wait([*speaking, *alive], over and max(0.0, over - monotonic()))
        ended = {place for place, process in enumerate(processes) if process.exitcode}
        hear()
        if not ready or ended - {one.place for one in failed} or not all(one.at_meeting for one in failed):
            break
    hear()
    return failed


def _take_part(pickled: bytes, device: str, peers: Peers, meeting: Meeting, speaks: Connection) -> None:
    """Do the pickled work here; the caller hears of what cannot be unpickled, too."""
    end_with_parent()
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(device)
    if meeting.interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", meeting.interface)
        if peers.on_several_nodes:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", meeting.interface)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=meeting.store(_PATIENCE),
        rank=peers.rank,
        world_size=peers.count,
        timeout=_PATIENCE,
    )

    def tell(*said: Any) -> None:
        if peers.leads:
            speaks.send(said)

    try:
        pickle.loads(pickled)(peers, tell)  # noqa: S301  (from the caller)
    except FoundryError as error:
        speaks.send(error)
        raise
    except Exception as error:
        speaks.send(_Failed(peers.local_rank, traceback.format_exc(), _is_at_meeting(error)))
        raise
    finally:
        speaks.close()
    distributed.destroy_process_group()
