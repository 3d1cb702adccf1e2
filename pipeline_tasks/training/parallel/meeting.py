"""Where the processes of one training find each other: a small store of the first node, while they train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import psutil
from torch.distributed import TCPStore

from pipeline_tasks.core.execution.team import Member, listen
from pipeline_tasks.training.parallel.peers import Peers


@dataclass(frozen=True)
class Meeting:
    """What the processes of a node have to know to join.

    Attributes:
        host: address of the first node.
        port: there.
        interface: of this node, that leads to the others; empty where it is not known.
        before: processes of the nodes before this one.
        here: processes of this node.
        count: of all.
    """

    host: str
    port: int
    interface: str
    before: int
    here: int
    count: int

    def peers(self, place: int) -> Peers:
        """The process at that place of this node."""
        return Peers(self.before + place, self.count, place, self.here)

    def store(self, patience: timedelta) -> TCPStore:
        """What a process of this node joins by."""
        return TCPStore(self.host, self.port, timeout=patience, wait_for_workers=False)


@contextmanager
def hold_meeting(member: Member, n_processes: int, patience: timedelta) -> Iterator[Meeting]:
    """Wait for the other nodes, and let processes of all of them join during the block.

    Args:
        member: which node this is.
        n_processes: of this node; others may have more or less.
        patience: how long the others are waited for.
    """
    listener, port = listen(member.host) if member.count == 1 else (member.listener, member.port)
    store = TCPStore(
        member.host, port, is_master=member.leads, timeout=patience, wait_for_workers=False, master_listen_fd=listener
    )
    store.set(f"processes of {member.rank}", str(n_processes))
    counts = [int(store.get(f"processes of {rank}")) for rank in range(member.count)]
    before = sum(counts[: member.rank])
    yield Meeting(member.host, port, interface_of(member.address), before, n_processes, sum(counts))
    del store  # the first node's serves all others until here


def interface_of(address: str) -> str:
    """The name of the network interface of this machine that has ``address``; empty where none has."""
    interfaces = psutil.net_if_addrs().items()
    return next((name for name, known in interfaces if address in {one.address for one in known}), "")
