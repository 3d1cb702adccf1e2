"""The processes of one training, one a device: what each has embedded reaches all, and so do its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

Told = TypeVar("Told")
_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class Peers:
    """This process's rank in a distributed run (``torch.distributed``), and the collectives that a training needs.

    All ranks must make the same calls in the same order. With one rank a call gives back its argument, or does nothing.

    Attributes:
        rank: its place among all of them.
        count: how many there are, on all nodes.
        local_rank: its place among those of its node.
        local_count: how many there are on its node.
        done: others have done the work; what they left is to be read, on the processor, which has room for all of it.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1
    done: bool = False

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and tells how far training is."""
        return self.rank == 0

    @property
    def on_several_nodes(self) -> bool:
        """Whether some have other files than this one."""
        return self.count > self.local_count

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
    def first_of_node(self) -> Iterator[None]:
        """The block, which the others enter once the first process of each node is through it; for files it makes."""
        if self.local_rank:
            self.meet()
        yield
        if not self.local_rank:
            self.meet()

    def from_leader(self, value: Told) -> Told:
        """What the leader gave: something small that can be pickled."""
        found = [value]
        distributed.broadcast_object_list(found, 0, device=torch.device(_place()))
        return found[0]

    def send_file(self, path: Path, size: int) -> None:
        """Write ``size`` bytes of the leader's file into one on each other node, a block of them in memory at a time.

        Args:
            path: the file on this node.
            size: of the leader's.
        """
        has_file = self.local_rank == 0
        with path.open("rb" if self.leads else "wb") if has_file else nullcontext() as file:
            for at in range(0, size, _BLOCK_BYTES):
                n_bytes = min(_BLOCK_BYTES, size - at)
                read = bytearray(file.read(n_bytes)) if file and self.leads else bytearray(n_bytes)
                block = torch.frombuffer(read, dtype=torch.uint8).to(_place())
                distributed.broadcast(block, 0)
                if file and not self.leads:
                    file.write(block.cpu().numpy().tobytes())

    def meet(self) -> None:
        """Wait until all are here."""
        if self.count > 1:
            distributed.barrier()


ALONE = Peers()


def _place() -> str:
    return "cuda" if distributed.get_backend() == "nccl" else "cpu"
