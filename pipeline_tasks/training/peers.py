"""The processes of one training, one a device: what each has embedded reaches all, and so do its gradients."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

from pipeline_tasks.core.engines.local import end_with_parent
from pipeline_tasks.core.errors import FoundryError, TransientError

_PATIENCE = timedelta(days=1)
"""How long a process waits for the others, the leader's evaluations among it; a dead one is noticed by the caller."""


@dataclass(frozen=True)
class Peers:
    """This process among ``count``; all must make the same calls in the same order. Alone, a call does nothing.

    Attributes:
        done: others have done the work; what they left is to be read, on the processor, which has room for all of it.
    """

    rank: int = 0
    count: int = 1
    done: bool = False

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and tells how far training is."""
        return self.rank == 0

    def share(self, n: int) -> range:
        """Which of ``n`` pieces of work are this process's."""
        return range(self.rank, n, self.count)

    def gather(self, pieces: dict[int, Tensor], sizes: Sequence[int], like: Tensor) -> Tensor:
        """The pieces of all processes in order, without a graph.

        Args:
            pieces: number -> [sizes[number], d], those of :meth:`share`.
            sizes: rows of every piece.
            like: [0, d], on the device and of the type of the pieces.

        Shapes:
            returns [sum of sizes, d].
        """
        whole = like.new_zeros((sum(sizes), like.shape[1]))
        places = whole.split(list(sizes))
        for number, piece in pieces.items():
            places[number].copy_(piece.detach())
        if self.count > 1:
            distributed.all_reduce(whole)
        return whole

    def add_gradients(self, weights: Iterable[Tensor]) -> None:
        """Give every process the sum of all processes' gradients of ``weights``; missing ones count as zero."""
        if self.count == 1:
            return
        under_way = []
        for weight in weights:
            if weight.requires_grad:
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
                under_way.append(distributed.all_reduce(weight.grad, async_op=True))
        for one in under_way:
            one.wait()

    def hand_out(self, owned: Sequence[tuple[Tensor, int]]) -> None:
        """Give every process each tensor as the process of that rank has it."""
        for one in [distributed.broadcast(tensor, owner, async_op=True) for tensor, owner in owned]:
            one.wait()

    def to_leader(self, tensor: Tensor | None, owner: int) -> None:
        """Fill the leader's ``tensor`` with its owner's; other processes have no part in it."""
        if tensor is None or owner == 0:
            return
        if self.leads:
            distributed.recv(tensor, src=owner)
        elif self.rank == owner:
            distributed.send(tensor, dst=0)

    def add(self, number: float) -> float:
        """The sum of all processes' numbers."""
        if self.count == 1:
            return number
        total = torch.tensor([number], dtype=torch.float64, device=_place())
        distributed.all_reduce(total)
        return total.item()

    def most(self, number: int) -> int:
        """The highest of all processes' numbers."""
        if self.count == 1:
            return number
        found = torch.tensor([number], device=_place())
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return int(found.item())

    def filled_up(self, own: Sequence[int]) -> list[int | None]:
        """``own``, and behind it None until it is as long as that of the process that has most."""
        return [*own, *[None] * (self.most(len(own)) - len(own))]

    def merged(self, rows: np.ndarray) -> np.ndarray:
        """The sum of all processes' arrays, of which each row is 0 in all but one."""
        if self.count == 1:
            return rows
        total = torch.from_numpy(rows).to(_place())
        distributed.all_reduce(total)
        return total.cpu().numpy()

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """The block, which all processes enter once the leader is through it; for files that it makes."""
        if self.count > 1 and not self.leads:
            distributed.barrier()
        yield
        if self.count > 1 and self.leads:
            distributed.barrier()


ALONE = Peers()
Tell = Callable[..., None]
Result = TypeVar("Result")


def spread(work: Callable[[Peers, Tell], Result], devices: Sequence[str], tell: Tell) -> Result:
    """What ``work`` gives: done by a process per device where there are several, and told here by what they left.

    See :func:`together`; the call at the end, alone, must find the work done and nothing but its result to give.
    """
    if len(devices) > 1:
        together(work, devices, tell)
        return work(Peers(done=True), tell)
    return work(ALONE, tell)


def together(work: Callable[[Peers, Tell], object], devices: Sequence[str], tell: Tell) -> None:
    """Do ``work`` in a process per device, until all are through.

    Args:
        work: given the process's place among its peers, and what tells the caller how far it is; can be pickled.
        devices: ``cuda:0`` and so on, or ``cpu`` as often as there are to be processes.
        tell: is called with what the leader tells.

    Raises:
        FoundryError: what a process raised.
        RuntimeError: what else a process raised, which is nothing that another try would mend.
        TransientError: a process ended without a word, often for want of memory.
    """
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        hears, speaks = context.Pipe(duplex=False)
        common = (work, tuple(devices), Path(folder) / "meeting", speaks)
        processes = [context.Process(target=_take_part, args=(rank, *common)) for rank in range(len(devices))]
        for process in processes:
            process.start()
        speaks.close()
        try:
            failed = _listen(hears, processes, tell)
            if not failed and not any(process.exitcode for process in processes):
                for process in processes:
                    process.join()
            ended = {rank: process.exitcode for rank, process in enumerate(processes) if process.exitcode}
            mute = [rank for rank in ended if rank not in {one.rank for one in failed}]
            for rank in sorted(mute, key=lambda rank: ended[rank]):
                raise TransientError(
                    f"the training process on {devices[rank]} ended with {ended[rank]}, often for want of "
                    "memory: try again, it goes on from its last checkpoint"
                )
            for one in failed:
                raise RuntimeError(f"the training process on {devices[one.rank]} failed:\n{one.told}")
        finally:
            for process in processes:
                process.kill()
                process.join()


@dataclass(frozen=True)
class _Failed:
    """A process raised what nobody foresaw; ``told`` is its traceback."""

    rank: int
    told: str


def _listen(hears: Connection, processes: Sequence[BaseProcess], tell: Tell) -> list[_Failed]:
    """Hear what the processes say until all are silent, or one has failed: the others may wait for it for ever.

    Returns:
        what they failed with, the first one's first: others may have lost it, and failed for that.
    """
    failed: list[_Failed] = []

    def heard() -> bool:
        try:
            said = hears.recv()
        except EOFError:
            return False
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, _Failed):
            failed.append(said)
        else:
            tell(*said)
        return True

    while True:
        ends = [process.sentinel for process in processes if process.is_alive()]
        if any(process.exitcode for process in processes):
            break
        if hears in wait([hears, *ends]) and not heard():
            return failed
    while hears.poll() and heard():
        pass
    return failed


def _take_part(
    rank: int, work: Callable[[Peers, Tell], object], devices: tuple[str, ...], meeting: Path, speaks: Connection
) -> None:
    end_with_parent()
    on_gpu = devices[rank].startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(devices[rank])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=meeting.as_uri(),
        rank=rank,
        world_size=len(devices),
        timeout=_PATIENCE,
    )

    def tell(*said: Any) -> None:
        if rank == 0:
            speaks.send(said)

    try:
        work(Peers(rank, len(devices)), tell)
    except FoundryError as error:
        speaks.send(error)
        raise
    except Exception:
        speaks.send(_Failed(rank, traceback.format_exc()))
        raise
    finally:
        speaks.close()
    distributed.destroy_process_group()


def _place() -> str:
    return "cuda" if distributed.get_backend() == "nccl" else "cpu"
