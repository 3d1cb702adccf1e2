"""Two processes that share a batch learn what one learns from the whole."""

import os
import shutil
from functools import partial
from pathlib import Path
from threading import Event
from time import sleep

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import distributed

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training import contrastive
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.contrastive import TrainResult, train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.parallel.processes import run_in_processes, run_on_devices
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampler import Pool
from pipeline_tasks.training.sampling.targets import RowSample
from pipeline_tasks.training.sampling.trials import Trials
from pipeline_tasks.training.schedule import Batch
from tests.training.killable import die_after, kill_one

LENGTHS = {"max_query_length": 16, "max_passage_length": 32}
CPUS = ("cpu", "cpu")
forks = pytest.mark.usefixtures("forked_peers")


COMMON = {"temperature": 0.1, "micro_batch_tokens": 64, "device": "cpu", **LENGTHS}
WAYS = {
    "whole batch at once": TrainParams(in_batch=True, graph_tokens=10**6, **COMMON),
    "gradient cache": TrainParams(in_batch=True, graph_tokens=64, **COMMON),
    "rows apart": TrainParams(in_batch=False, graph_tokens=120, **COMMON),
    "one piece": TrainParams(in_batch=True, **COMMON | {"micro_batch_tokens": 10**6}),
    "queries as negatives": TrainParams(objective="same_tower", in_batch=True, graph_tokens=64, **COMMON),
}


def gradients(folder: Path, rows: dict[str, Examples], work: Path, peers: Peers, *_) -> dict[str, dict]:
    """By way, loss and gradients of one batch, dropout on; each process leaves its own below ``work``."""
    found = {}
    for way, params in WAYS.items():
        encoder = load(folder)
        encoder.model.train()
        place = work / f"tokens-{peers.rank}-of-{peers.count}" / way
        data = tokenized(rows[way], encoder.tokens, place, **LENGTHS)
        loss = Gradients(encoder, data, params, peers).add(Batch(np.arange(len(data)), params.objective), 5)
        of_weights = {name: w.grad for name, w in encoder.model.named_parameters() if w.grad is not None}
        found[way] = of_weights | {"loss": torch.tensor(loss)}
    torch.save(found, work / f"{peers.rank}-of-{peers.count}.pt")
    return found


@forks
def test_two_processes_with_half_a_batch_each_equal_one_with_the_union(tiny_bert, rows, tmp_path) -> None:
    examples = dict.fromkeys(WAYS, rows) | {"one piece": Examples.of(["ta"], ["tb wa"], [["tc"]])}
    alone = gradients(tiny_bert, examples, tmp_path, ALONE)
    run_in_processes(partial(gradients, tiny_bert, examples, tmp_path), CPUS, print)
    halves = [torch.load(tmp_path / f"{rank}-of-2.pt") for rank in range(2)]
    for way, weights in alone.items():
        assert halves[0][way].keys() == halves[1][way].keys() == weights.keys()
        for name, whole in weights.items():
            assert torch.equal(halves[0][way][name], halves[1][way][name])
            torch.testing.assert_close(halves[0][way][name], whole, rtol=0, atol=1e-6)


def of_targets(folder: Path, sets: list[Examples], work: Path, peers: Peers, *_) -> list[np.ndarray]:
    """The gradients of targets as a sampler asks for them, one a weight; each process leaves its own."""
    encoder = load(folder)
    place = work / f"targets-{peers.rank}-of-{peers.count}"
    data = [tokenized(rows, encoder.tokens, place / f"{at}", **LENGTHS) for at, rows in enumerate(sets)]
    params = TrainParams(in_batch=True, graph_tokens=64, **COMMON)
    drawn = [RowSample(encoder, rows, np.arange(len(rows)), params) for rows in data]
    descent = Descent(encoder.model, params, peers)
    own = Gradients(encoder, data[0], params, peers)
    trials = Trials(0, own, descent, lambda source: None, lambda tokens, n: None, lambda: 7, drawn, [])
    bench = trials.bench(Pool(["a"], np.ones(1), 1))
    found = [gradient.numpy() for gradient in descent.gradients(bench.of_targets)]
    np.savez(work / f"targets-{peers.rank}-of-{peers.count}.npz", *found)
    return found


@forks
def test_targets_count_alike_however_many_processes_share_them(tiny_bert, rows, dev, tmp_path) -> None:
    sets = [rows, dev, rows]
    alone = [of_targets(tiny_bert, [one], tmp_path, ALONE) for one in sets]
    mean = [np.mean(some, axis=0) for some in zip(*alone, strict=True)]
    run_in_processes(partial(of_targets, tiny_bert, sets, tmp_path), CPUS, print)
    whole = of_targets(tiny_bert, sets, tmp_path, ALONE)
    halves = [list(np.load(tmp_path / f"targets-{rank}-of-2.npz").values()) for rank in range(2)]
    for found in (whole, *halves):
        for gradient, expected in zip(found, mean, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def says(peers: Peers, tell) -> None:
    tell(peers.rank)
    if peers.leads:
        raise InputError("bad rows: leave them out")
    peers.add(1.0)


def ends(peers: Peers, tell) -> None:
    if peers.leads:
        peers.add(1.0)
    raise SystemExit(3)


def leaves_the_other_waiting(peers: Peers, tell) -> None:
    if peers.leads:
        Event().wait()
    os._exit(3)


def test_what_a_process_raises_ends_all_and_reaches_the_caller() -> None:
    """Here they begin anew, as in a training."""
    told = []
    with pytest.raises(InputError, match="bad rows"):
        run_in_processes(says, CPUS, lambda *said: told.append(said))
    assert told == [(0,)]


@forks
def test_a_process_that_ends_without_a_word_asks_for_another_try() -> None:
    with pytest.raises(TransientError, match="ended with .*try again"):
        run_in_processes(ends, CPUS, print)


@forks
def test_a_process_that_ends_is_noticed_where_the_others_wait_for_it_for_ever() -> None:
    with pytest.raises(TransientError, match="ended with 3, .*try again"):
        run_in_processes(leaves_the_other_waiting, CPUS, print)


def leave_the_leader_alone(peers: Peers) -> None:
    if peers.leads:
        peers.add(1.0)
    distributed.destroy_process_group()
    sleep(1)


def loses_its_connection_first(peers: Peers, tell) -> None:
    leave_the_leader_alone(peers)
    os._exit(3)


@forks
def test_the_one_that_ends_is_named_and_not_the_one_that_lost_it_and_said_so_first() -> None:
    with pytest.raises(TransientError, match="ended with 3, .*try again"):
        run_in_processes(loses_its_connection_first, CPUS, print)


def tells_later_than_the_leader(peers: Peers, tell) -> None:
    leave_the_leader_alone(peers)
    raise OSError(28, "No space left on device")


@forks
def test_the_one_that_failed_is_told_and_not_the_one_that_lost_it_and_said_so_first() -> None:
    with pytest.raises(RuntimeError, match="(?s)No space left"):
        run_in_processes(tells_later_than_the_leader, CPUS, print)


def fills_the_disk(peers: Peers, tell) -> None:
    if not peers.leads:
        raise OSError(28, "No space left on device")
    peers.add(1.0)


@forks
def test_what_nobody_foresaw_is_told_as_it_is_and_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="(?s)training process on cpu failed.*fills_the_disk.*No space left"):
        run_in_processes(fills_the_disk, CPUS, print)


SMALL = TrainParams(
    epochs=8, batch_size=8, learning_rate=3e-3, evals_per_epoch=1, checkpoint_every_steps=2, in_batch=True, **COMMON
)


@forks
def test_two_processes_train_as_one_does_and_a_killed_one_leaves_no_trace(tiny_bert, rows, dev, tmp_path) -> None:
    """Nor does it matter to any bit whether both have all of the optimiser's moments, or half each."""
    (asked,) = dev.blocks()
    intents = pa.array(["nli" if number % 3 else "qa" for number in range(len(asked))])
    dev = Examples(partial(iter, [asked.append_column("source", intents)]))

    def trained(name: str, devices=CPUS, progress=lambda *_: None, **changed) -> TrainResult:
        params = SMALL.model_copy(update=changed)
        return train(rows, dev, tiny_bert, params, tmp_path / name, progress, devices=devices)

    alone, undisturbed = trained("alone", ()), trained("undisturbed")
    assert undisturbed.losses == pytest.approx(alone.losses, rel=1e-3)
    assert (alone.resumed_at, undisturbed.resumed_at) == (0, 0)
    np.testing.assert_allclose(undisturbed.scores, alone.scores, atol=1e-3)

    with pytest.raises(TransientError, match="goes on from its last checkpoint"):
        trained("killed", progress=kill_one, sharding="zero1")
    shutil.copytree(tmp_path / "killed", tmp_path / "by one")
    resumed = []
    again = trained("killed", progress=lambda step, *_: resumed.append(step), sharding="zero1")
    assert resumed[0] > 2 and again.resumed_at == resumed[0] - 1
    assert again.losses == undisturbed.losses
    weights, expected = (result.encoder.model.state_dict() for result in (again, undisturbed))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)

    by_one = trained("by one", (), sharding="zero1")
    assert by_one.resumed_at >= 2
    assert by_one.losses == pytest.approx(undisturbed.losses, rel=1e-3)


@forks
def test_killed_at_any_edge_the_leader_too_two_end_the_same(tiny_bert, rows, dev, tmp_path, monkeypatch) -> None:
    """Of two epochs of three steps: in the first, at the edge between them, in the last and after it."""
    params = SMALL.model_copy(update={"epochs": 2})

    def trained(name: str) -> TrainResult:
        return train(rows, dev, tiny_bert, params, tmp_path / name, devices=CPUS)

    undisturbed = trained("undisturbed")
    for rank, last in ((1, 0), (0, 1), (0, 3), (1, 3), (1, 5), (0, 6)):
        with monkeypatch.context() as patched:
            patched.setattr(
                contrastive,
                "run_on_devices",
                lambda work, *rest, r=rank, n=last: run_on_devices(partial(die_after, r, n, work), *rest),
            )
            with pytest.raises(TransientError, match="ended with -9"):
                trained("killed")
    again = trained("killed")
    assert (again.resumed_at, again.losses, again.scores) == (6, undisturbed.losses, undisturbed.scores)
    weights, expected = (result.encoder.model.state_dict() for result in (again, undisturbed))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
