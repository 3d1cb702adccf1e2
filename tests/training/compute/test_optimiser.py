"""AdamW whose moments two processes divide is AdamW, to the bit."""

from functools import partial
from pathlib import Path

import pytest
import torch

from pipeline_tasks.training.compute.optimiser import Optimiser, pieces
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.parallel.processes import run_in_processes
from pipeline_tasks.training.params import Sharding, TrainParams

SHAPES = ((7,), (100, 30), (130,), (41, 9), (3,))
N = sum(torch.Size(shape).numel() for shape in SHAPES)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_pieces_cover_every_weight_once_in_stretches_of_the_same_length(count: int) -> None:
    sizes = [torch.Size(shape).numel() for shape in SHAPES]
    found = pieces(sizes, count)
    for weight, size in enumerate(sizes):
        own = [piece for piece in found if piece.weight == weight]
        assert [piece.begin for piece in own] == [0, *(piece.end for piece in own[:-1])]
        assert own[-1].end == size
    assert [piece.owner for piece in found] == sorted(piece.owner for piece in found)
    lengths = [sum(p.end - p.begin for p in found if p.owner == owner) for owner in range(count)]
    assert max(lengths) - min(lengths) <= 128


def changed(sharding: Sharding, peers: Peers, steps: range, state: dict | None = None) -> tuple[list, Optimiser]:
    """Weights after steps down made-up gradients, the same in every process, and what went down."""
    random = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=random)) for shape in SHAPES]
    params = TrainParams(sharding=sharding, learning_rate=0.1, weight_decay=0.5, device="cpu")
    optimiser = Optimiser(weights, params, peers)
    if state:
        optimiser.load(state["optimiser"])
        for weight, kept in zip(weights, state["weights"], strict=True):
            weight.data.copy_(kept)
    for step in steps:
        go_down(weights, optimiser, step)
    return weights, optimiser


def go_down(weights: list, optimiser: Optimiser, step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=random)
    optimiser.step()


def take_part(folder: Path, peers: Peers, tell) -> None:
    weights, optimiser = changed("zero1", peers, range(4))
    own = sum(moments["exp_avg"].numel() for moments in optimiser.moments())
    kept = optimiser.moments()
    state = {"weights": [weight.clone() for weight in weights], "optimiser": optimiser.state()}
    go_down(weights, optimiser, 4)
    optimiser.back(kept)
    put_back = all(torch.equal(a[n], b[n]) for a, b in zip(kept, optimiser.moments(), strict=True) for n in a)
    torch.save({"own": own, "put_back": put_back, **state}, folder / f"{peers.rank}.pt")
    again = {name: torch.load(folder / "whole.pt")[name] for name in ("weights", "optimiser")}
    torch.save(changed("zero1", peers, range(4, 6), again)[0], folder / f"on-{peers.rank}.pt")


@pytest.mark.usefixtures("forked_peers")
def test_two_processes_with_half_of_the_moments_each_do_as_one_with_all(tmp_path) -> None:
    weights, whole = changed("", ALONE, range(4))
    torch.save({"weights": weights, "optimiser": whole.state()}, tmp_path / "whole.pt")
    run_in_processes(partial(take_part, tmp_path), ("cpu", "cpu"), print)
    leader, other = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert leader["own"] + other["own"] == N
    assert abs(leader["own"] - N / 2) <= 64
    assert leader["put_back"]
    assert other["put_back"]
    for found in (leader["weights"], other["weights"]):
        assert all(map(torch.equal, found, weights))
    assert other["optimiser"] == {}
    expected = torch.load(tmp_path / "whole.pt")["optimiser"]
    assert leader["optimiser"]["param_groups"] == expected["param_groups"]
    for number, moments in expected["state"].items():
        assert all(torch.equal(leader["optimiser"]["state"][number][name], moments[name]) for name in moments)
    on, _ = changed("", ALONE, range(6))
    by_one, _ = changed("zero1", ALONE, range(4, 6), leader)
    assert all(map(torch.equal, by_one, on))
    for rank in range(2):
        assert all(map(torch.equal, torch.load(tmp_path / f"on-{rank}.pt"), on))
