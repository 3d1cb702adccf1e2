"""Nodes that share a training take the steps of one; two threads play them here, each with files of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.team import Member, PartDone, acting_as, listen, member
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import devices_of
from pipeline_tasks.training.contrastive import TrainResult, train
from pipeline_tasks.training.parallel.meeting import hold_meeting, interface_of
from pipeline_tasks.training.parallel.peers import Peers
from pipeline_tasks.training.parallel.processes import run_on_devices
from pipeline_tasks.training.params import TrainParams
from tests.training.killable import kill_one

LENGTHS = {"max_query_length": 16, "max_passage_length": 32}
SMALL = TrainParams(
    epochs=8, batch_size=8, learning_rate=3e-3, evals_per_epoch=1, checkpoint_every_steps=2, in_batch=True,
    temperature=0.1, micro_batch_tokens=64, device="cpu", **LENGTHS,
)  # fmt: skip


def on_nodes(count: int, work: Callable[[], Any]) -> list[Future[Any]]:
    """What ``work`` came to on each of that many nodes, the leader's first."""
    listener, port = listen("127.0.0.1")
    members = [Member(rank, count, port=port, listener=None if rank else listener) for rank in range(count)]

    def as_one(which: Member) -> Any:
        with acting_as(which):
            return work()

    with ThreadPoolExecutor(count) as pool:
        return [pool.submit(as_one, one) for one in members]


def test_processes_are_numbered_node_by_node_however_many_each_has() -> None:
    here, patience = (2, 1, 3), timedelta(seconds=60)
    all_joined = Barrier(len(here))

    def joined() -> list[Peers]:
        n = here[member().rank]
        with hold_meeting(member(), n, patience) as meeting:
            all_joined.wait()
            return [meeting.peers(place) for place in range(n)]

    found = [peers for node in on_nodes(len(here), joined) for peers in node.result()]
    assert [(one.rank, one.local_rank, one.local_count) for one in found] == [
        (0, 0, 2), (1, 1, 2), (2, 0, 1), (3, 0, 3), (4, 1, 3), (5, 2, 3),
    ]  # fmt: skip
    assert {one.count for one in found} == {6}
    assert [one.rank for one in found if one.leads] == [0]
    assert all(one.on_several_nodes for one in found) and not Peers(1, 2, 1, 2).on_several_nodes


def test_others_are_met_at_the_interface_that_has_their_address() -> None:
    assert interface_of("127.0.0.1").startswith("lo")
    assert interface_of("192.0.2.1") == "", "an address of no machine"


@pytest.mark.usefixtures("forked_peers")
def test_two_nodes_train_as_two_processes_of_one_do_and_a_killed_one_leaves_no_trace(
    tiny_bert, rows, dev, tmp_path
) -> None:
    """Also where the second has lost its files, and where it has a checkpoint of its own, of another time."""
    params = SMALL.model_copy(update={"sharding": "zero1"})

    def on_one(devices: Sequence[str], folder: Path, progress=lambda *_: None) -> TrainResult:
        return train(rows, dev, tiny_bert, params, folder, progress, devices=devices)

    def on_two(name: str, progress=lambda *_: None) -> TrainResult:
        led, followed = on_nodes(2, lambda: on_one(["cpu"], tmp_path / f"{name}-{member().rank}", progress))
        error = followed.exception()
        if isinstance(error, PartDone):
            return led.result()
        assert led.exception(), "the leader noticed"
        raise error

    one = on_one(["cpu", "cpu"], tmp_path / "one")
    undisturbed = on_two("undisturbed")
    assert not list((tmp_path / "undisturbed-1").glob("*.pt")), "the leader alone saves"
    with pytest.raises(Exception, match="try again, it goes on from its last checkpoint|failed"):
        on_two("killed", kill_one)
    for fate in ("lost", "stale"):
        shutil.copytree(tmp_path / "killed-0", tmp_path / f"{fate}-0")
    (tmp_path / "stale-1").mkdir()
    (tmp_path / "stale-1/step-00000099.pt").write_bytes(b"of another time")
    resumed = [on_two(fate) for fate in ("lost", "stale")]
    for found in (undisturbed, *resumed):
        assert found.losses == one.losses and found.scores == one.scores
        weights, expected = (result.encoder.model.state_dict() for result in (found, one))
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert undisturbed.resumed_at == 0 and all(found.resumed_at >= 2 for found in resumed)
    assert [found.name for found in (tmp_path / "stale-1").glob("*.pt")] != ["step-00000099.pt"]


def test_a_node_without_a_device_says_so_where_others_would_train_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOUNDRY_DEVICES", "cuda:0")
    settings.cache_clear()
    assert (devices_of("cuda"), devices_of("cpu")) == (["cuda:0"], ["cpu"])
    monkeypatch.setenv("FOUNDRY_DEVICES", "cpu")
    settings.cache_clear()
    found = on_nodes(2, lambda: run_on_devices(print, devices_of("cuda"), print))
    settings.cache_clear()
    for node in found:
        with pytest.raises(InputError, match="one of 2 nodes of a training, sees no device that it is for"):
            node.result()
