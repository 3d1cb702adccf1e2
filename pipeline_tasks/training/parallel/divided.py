"""Weights that several processes divide among them, with their gradients and the optimiser's moments (FSDP2).

Every process keeps a stretch of each weight. Before a block computes, its weights come together in all processes, and
are given up when it has; its gradients are added up and divided again as they come. So all processes must call the
model as often as each other, and in the same order: one with nothing left to do encodes a text for nothing.

What is saved is whole, as an undivided training saves it: any number of processes goes on from it, divided or not.

Source:
    Zhao et al. 2023 (arXiv 2304.11277), by ``torch.distributed.fsdp.fully_shard``; stage 3 of ZeRO, Rajbhandari et al.
    2020 (arXiv 1910.02054), section 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams


def divides(params: OptimiserParams, peers: Peers) -> bool:
    """Whether ``peers`` divide the weights of a training."""
    return params.sharding == "fsdp" and peers.count > 1


def in_step(params: OptimiserParams, peers: Peers) -> Peers:
    """The processes that must call the model as often as each other: ``peers`` that divide its weights, or this one."""
    return peers if divides(params, peers) else ALONE


def divide(model: Any, peers: Peers, device: torch.device) -> None:
    """Leave this process its stretch of every weight, on its device; all processes have the same whole weights before.

    Gradients are sums over processes, as those of undivided weights are.

    Raises:
        InputError: the model has no blocks, so that all weights would come together at once.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard
    from transformers.modeling_layers import GradientCheckpointingLayer

    blocks = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not blocks:
        raise InputError(
            f"sharding='fsdp' brings the weights of one block together at a time, and {type(model).__name__} has none "
            "that is known: set sharding='zero1', or start from another model"
        )
    mesh = init_device_mesh(device.type, (peers.count,))
    for block in reversed(blocks):  # inner ones first
        fully_shard(block, mesh=mesh)
    # Else the outermost weights, the embeddings, stay together until the next backward pass.
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other


def whole(tensors: Mapping[str, Tensor], peers: Peers) -> dict[str, Tensor]:
    """All of each tensor: divided ones on the processor of the process that leads, and nothing in others.

    All processes make the same call; a device has room for one whole tensor at a time.
    """
    found = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, DTensor):
            tensor = tensor.full_tensor().cpu() if peers.leads else tensor.full_tensor()
        if peers.leads:
            found[name] = tensor
    return found


def stretch(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor that all have, where ``like`` is divided; else the tensor."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
