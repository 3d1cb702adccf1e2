"""AdamW over all weights that train, whose moments several processes may divide among them.

Undivided, every process keeps both moments of every weight: 8 bytes each. Divided (ZeRO, stage 1), the weights lie one
after the other, are cut into one stretch of the same length a process, and each keeps the moments of its stretch alone:
it changes those weights, and hands them to the others. Every process still has all weights and all gradients. AdamW
treats each number by itself, so the weights are the same as without, to the bit.

Weights that are divided themselves (:mod:`pipeline_tasks.training.parallel.divided`) have their moments where they are.

What is saved is the whole state, as an undivided AdamW has it, whoever keeps it: any number of processes goes on from
it.

Source:
    Rajbhandari et al. 2020 (arXiv 1910.02054), section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline_tasks.training.parallel.divided import stretch, whole
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams

_UNIT = 64  # Stretches end at multiples of that within a weight, so that vector instructions meet the same numbers.


class Piece(NamedTuple):
    """Numbers ``begin`` to ``end`` of a weight that is laid out flat, and the process that keeps their moments."""

    weight: int
    begin: int
    end: int
    owner: int


def pieces(sizes: Sequence[int], count: int) -> list[Piece]:
    """Weights of these sizes, dealt out to ``count`` processes in order, as evenly as :data:`_UNIT` allows."""
    total, before, found = sum(sizes), 0, []
    for weight, size in enumerate(sizes):
        within = [total * owner // count - before for owner in range(count + 1)]
        edges = [size if edge >= size else max(0, edge) // _UNIT * _UNIT for edge in within]
        for owner, (begin, end) in enumerate(zip(edges, edges[1:], strict=False)):
            if begin < end:
                found.append(Piece(weight, begin, end, owner))
        before += size
    return found


class Optimiser:
    """AdamW; biases and normalisation weights (vectors) are not decayed. All processes make the same calls.

    Attributes:
        adam: over what this process keeps the moments of.
    """

    def __init__(self, weights: Sequence[Tensor], params: OptimiserParams, peers: Peers = ALONE) -> None:
        self._weights = [w for w in weights if w.ndim >= 2] + [w for w in weights if w.ndim < 2]
        self._peers, self._moments_divided = peers, params.sharding == "zero1" and peers.count > 1
        self._pieces = pieces([w.numel() for w in self._weights], peers.count if self._moments_divided else 1)
        own = [piece for piece in self._pieces if piece.owner == peers.rank or not self._moments_divided]
        self._own = {piece: self._parameter(piece) for piece in own}
        groups = [
            {"params": [w for p, w in self._own.items() if self._decays(p)], "weight_decay": params.weight_decay},
            {"params": [w for p, w in self._own.items() if not self._decays(p)], "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, lr=params.learning_rate, fused=True)

    def _decays(self, piece: Piece) -> bool:
        return self._weights[piece.weight].ndim >= 2

    def _parameter(self, piece: Piece) -> Tensor:
        """The weight itself where all of it is meant, else a parameter in the same memory."""
        weight = self._weights[piece.weight]
        if piece.end - piece.begin == weight.numel():
            return weight
        return torch.nn.Parameter(_within(weight.detach(), piece))

    @property
    def rate(self) -> float:
        """The learning rate."""
        return float(self.adam.param_groups[0]["lr"])

    @rate.setter
    def rate(self, rate: float) -> None:
        for parameters in self.adam.param_groups:
            parameters["lr"] = rate

    def step(self) -> None:
        """Change the weights by their gradients, which are gone afterwards."""
        for piece, own in self._own.items():
            weight = self._weights[piece.weight]
            if own is not weight and weight.grad is not None:
                own.grad = _within(weight.grad.contiguous(), piece)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.forget()
        if self._moments_divided:
            self._peers.hand_out([(_within(self._weights[p.weight].detach(), p), p.owner) for p in self._pieces])

    def forget(self) -> None:
        """Drop all gradients."""
        for weight in self._weights:
            weight.grad = None

    def moments(self) -> list[dict[str, Tensor]]:
        """Copies of what this process keeps."""
        kept: list[dict[str, Any]] = [self.adam.state.get(own, {}) for own in self._own.values()]
        return [{name: moment.clone() for name, moment in one.items()} for one in kept]

    @torch.no_grad()
    def back(self, moments: Sequence[dict[str, Tensor]]) -> None:
        """Put back what :meth:`moments` gave, to the bit."""
        for own, kept in zip(self._own.values(), moments, strict=True):
            if not kept:
                self.adam.state.pop(own, None)
            for name, moment in kept.items():
                self.adam.state[own][name].copy_(moment)

    def state(self) -> dict[str, Any]:
        """What :meth:`load` takes, of all weights, once there was a step; empty in a process that does not lead."""
        if not self._moments_divided:
            found = self.adam.state_dict()
            state = {number: whole(moments, self._peers) for number, moments in found["state"].items()}
            return found | {"state": state} if self._peers.leads else {}
        merged: dict[int, dict[str, Tensor]] = {}
        for piece in self._pieces:
            kept = self._at_leader(piece)
            if not self._peers.leads:
                continue
            weight = self._weights[piece.weight]
            of_weight = merged.setdefault(piece.weight, {})
            for name, part in kept.items():
                if name == "step":
                    of_weight[name] = part.cpu()
                    continue
                moment = of_weight.setdefault(name, torch.empty(weight.shape, dtype=part.dtype))
                _within(moment, piece).copy_(part.flatten())
        if not self._peers.leads:
            return {}
        groups = self.adam.state_dict()["param_groups"]
        matrices = sum(w.ndim >= 2 for w in self._weights)
        numbers = list(range(len(self._weights)))
        of_group = (numbers[:matrices], numbers[matrices:])
        renumbered = [group | {"params": own} for group, own in zip(groups, of_group, strict=True)]
        return {"state": merged, "param_groups": renumbered}

    def _at_leader(self, piece: Piece) -> dict[str, Tensor]:
        """Both moments of a piece and its count of steps, at its owner and at the leader."""
        if piece in self._own:
            kept: dict[str, Tensor] = self.adam.state[self._own[piece]]
        else:
            like = _within(self._weights[piece.weight].detach(), piece)
            count = torch.zeros((), dtype=torch.float32, device=like.device)
            kept = {"step": count, "exp_avg": torch.empty_like(like), "exp_avg_sq": torch.empty_like(like)}
            kept = kept if self._peers.leads else {}
        for name in ("step", "exp_avg", "exp_avg_sq"):
            self._peers.to_leader(kept.get(name), piece.owner)
        return kept

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave, whatever the number of processes was and whoever kept what.

        Nothing of ``state`` is held on to, which may be mapped from a file.
        """
        own: dict[int, dict[str, Tensor]] = {}
        for number, (piece, parameter) in enumerate(self._own.items()):
            of_weight = state["state"].get(piece.weight, {})
            own[number] = {
                name: (moment if name == "step" else self._part(moment, piece, parameter)).clone()
                for name, moment in of_weight.items()
            }
        kept = {number: moments for number, moments in own.items() if moments}
        self.adam.load_state_dict({"state": kept, "param_groups": self.adam.state_dict()["param_groups"]})

    def _part(self, moment: Tensor, piece: Piece, parameter: Tensor) -> Tensor:
        """What this process keeps of a whole moment, beside ``parameter``."""
        return _within(moment, piece).view_as(parameter) if self._moments_divided else stretch(moment, parameter)


def _within(tensor: Tensor, piece: Piece) -> Tensor:
    """That piece of a contiguous tensor, flat, in the same memory."""
    return tensor.view(-1)[piece.begin : piece.end]
