"""Gradients of a loss over many texts, in the memory of a few.

The loss of a batch needs the embeddings of all its texts, but autograd would keep the activations of all of
them too. When they do not fit, the batch is encoded twice:

1. encode each micro-batch, keep the embeddings, drop the activations;
2. take the loss and its gradient with respect to the embeddings (a small graph);
3. encode each micro-batch again and push its share of that gradient through the encoder.

By the chain rule the weights' gradients are those of the plain pass, for a third more computation. It holds
only if both passes of a micro-batch see the same dropout: ``encode(i)`` must be a function of ``i`` and the
weights.

Source:
    Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".
"""

from collections.abc import Callable

import torch
from torch import Tensor


def backward(
    encode: Callable[[int], Tensor], n_pieces: int, loss_of: Callable[[Tensor], Tensor], *, cached: bool
) -> float:
    """Add the gradients of ``loss_of`` over all pieces to the weights, and return the loss.

    Args:
        encode: embeds piece ``i`` to [n_i, d]; called twice with the same ``i`` where ``cached``, and must then give
            the same embeddings.
        loss_of: [sum n_i, d] to a scalar; the pieces' embeddings in order.
        cached: trade a second forward pass for the memory of all but one piece.
    """
    if not cached:
        loss = loss_of(torch.cat([encode(i) for i in range(n_pieces)]))
        loss.backward()
        return loss.item()
    # With autograd on, so that both passes run the same attention kernels.
    pieces = [encode(i).detach() for i in range(n_pieces)]
    embeddings = torch.cat(pieces).requires_grad_()
    loss = loss_of(embeddings)
    (of_embeddings,) = torch.autograd.grad(loss, embeddings)
    for i, gradient in enumerate(of_embeddings.split([len(piece) for piece in pieces])):
        encode(i).backward(gradient)
    return loss.item()
