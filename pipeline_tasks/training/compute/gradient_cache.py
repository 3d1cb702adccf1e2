"""Gradients of a loss over many texts, in the memory of a few.

The loss of a batch needs the embeddings of all its texts, but autograd would keep the activations of all of
them too. When they do not fit, what does not fit is encoded twice:

1. encode each micro-batch, keep the embeddings, drop the activations of all but the last few micro-batches;
2. take the loss and its gradient with respect to the embeddings (a small graph);
3. push each micro-batch's share of that gradient through the encoder, the last one first; one that lost its activations
   is encoded again, when those that had kept theirs have given them up.

By the chain rule the weights' gradients are those of the plain pass, for up to a third more computation. It holds
only if both passes of a micro-batch see the same dropout: ``encode(i)`` must be a function of ``i`` and the
weights.

With several processes each encodes its share of the micro-batches; the embeddings of all meet between 1 and 2, so that
every process takes the loss of the whole batch, and step 3 is again for its share alone. The sum of the processes'
gradients is the gradient. Where they divide the weights they call the model in step: see
:mod:`pipeline_tasks.training.parallel.divided`.

Source:
    Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pipeline_tasks.training.parallel.peers import ALONE, Peers


def backward(
    encode: Callable[[int | None], Tensor],
    sizes: Sequence[int],
    loss_of: Callable[[Tensor], Tensor],
    like: Tensor,
    *,
    held: int,
    peers: Peers = ALONE,
    in_step: Peers = ALONE,
) -> float:
    """Add this process's share of the gradients of ``loss_of`` over all pieces to the weights, and return the loss.

    Args:
        encode: embeds piece ``i`` to [sizes[i], d]; called twice with the same ``i`` for all but the last ``held``, and
            must then give the same embeddings. None: some text, for nothing.
        sizes: texts of every piece.
        loss_of: [sum of sizes, d] to a scalar; the pieces' embeddings in order.
        like: [0, d], on the device and of the type of the embeddings.
        held: how many of the last pieces keep their activations, so that no second forward pass is needed for them;
            with all of them it is the plain pass.
        peers: which of the pieces are this process's.
        in_step: processes that call ``encode``, and go back through it, as often as each other.
    """
    if peers.count == in_step.count == 1 and held >= len(sizes):
        loss = loss_of(torch.cat([encode(i) for i in range(len(sizes))]))
        loss.backward()
        return loss.item()
    # With autograd on, so that both passes run the same attention kernels.
    own = peers.share(len(sizes))
    turns = in_step.filled_up(own)
    n_dropped = in_step.most(sum(i < len(sizes) - held for i in own))
    embedded = [encode(i).detach() if turn < n_dropped else encode(i) for turn, i in enumerate(turns)]
    embeddings = peers.gather(dict(zip(own, embedded, strict=False)), sizes, like).requires_grad_()
    loss = loss_of(embeddings)
    (of_embeddings,) = torch.autograd.grad(loss, embeddings)
    gradients = of_embeddings.split(list(sizes))
    for turn, i in reversed(list(enumerate(turns))):
        again = encode(i) if turn < n_dropped else embedded[turn]
        again.backward(torch.zeros_like(again) if i is None else gradients[i])
    return loss.item()
