"""Masked words as a task for a decoder that attends both ways: it learns to look ahead, and forgets little.

**The mask.** A decoder's tokenizer has no mask token, and a new one would have an embedding that nothing has trained.
So a blank stands for what is masked: the one token that ``_`` is, which these models have seen where something is left
out. A tokenizer that has a mask token is asked for that. Every chosen token becomes a blank; some unchanged or random
ones among them, as BERT has it, are for models that are used as they are, and here two stages follow.

**The loss.** A decoder's hidden state at position i was trained to give token i + 1. So a masked token is read off the
position *before* it, and the model's own head goes on fitting; read off its own position, all layers would first have
to unlearn that shift. What is new is that this position sees what follows. Nothing precedes the first token: it is
never masked.

    loss = mean over masked positions i of  -log softmax(c W h_{i-1})[x_i]

with the factor c that the model itself has, 1 for most (Granite and Cohere have another); Gemma 2 bounds it by a tanh.

Source:
    DMRetriever 3.2.1, which gives neither mask token nor position nor share and names LLM2Vec (BehnamGhader et al.
    2024, arXiv 2404.05961, section 2, "masked next token prediction"): blank, position and adapters on all projections
    are as there. Its published settings mask a fifth of the tokens of Llama, some of them by random or unchanged ones,
    and four fifths of those of Mistral, all by blanks; ours a fifth, all by blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.encoders.states import hidden_states
from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.compute.arithmetic import arithmetic
from pipeline_tasks.training.compute.batches import micro_batches, piece_at, plan_batches
from pipeline_tasks.training.compute.reproducible import seed_dropout
from pipeline_tasks.training.data.tokens import Tokens
from pipeline_tasks.training.loop import Task
from pipeline_tasks.training.parallel.divided import divides, in_step
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.params import OptimiserParams

_DEV = 1 << 32  # takes the place of a step's number, which is never as large


@dataclass(frozen=True)
class Blanks:
    """What is masked.

    Attributes:
        token: that stands for a masked one.
        share: of a text's tokens, the first one aside; at least one.
    """

    token: int
    share: float

    def put(self, ids: np.ndarray, *key: int) -> tuple[np.ndarray, np.ndarray]:
        """``ids`` with blanks, and their positions in order: a function of ``key``.

        Shapes:
            ids: [s], s at least 2; returns [s] and [m], 1 <= m < s.
        """
        rest = len(ids) - 1
        chosen = 1 + np.random.default_rng(key).permutation(rest)[: max(1, round(self.share * rest))]
        masked = ids.copy()
        masked[chosen] = self.token
        return masked, np.sort(chosen)


def blank_token(tokenizer: Any, text: str) -> int:
    """The mask token of a tokenizer that has one, else the one token that ``text`` is.

    Raises:
        InputError: ``text`` is no token, or several.
    """
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)
    ids = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    unknown = getattr(tokenizer, "unk_token_id", None)
    if len(ids) != 1 or ids[0] == unknown:
        raise InputError(
            f"mask_text={text!r} is {len(ids)} tokens or unknown to the tokenizer: name one that is a token"
        )
    return int(ids[0])


def masked_task(
    encoder: TrainableEncoder,
    head: Callable[[Tensor], Tensor],
    texts: Tokens,
    dev: Tokens,
    key: str,
    blanks: Blanks,
    params: OptimiserParams,
    peers: Peers = ALONE,
) -> Task:
    """Filling blanks in ``texts``; the score is the share of blanks that are filled right in ``dev``.

    Args:
        encoder: what is trained.
        head: from hidden states to scores of all tokens; it is not trained.
        texts: token ids; a text of one token has none that could be masked, and is no row.
        dev: the same, held out; the blanks in them are the same at every evaluation.
        key: stands for both.
        blanks: what is masked.
        params: hyperparameters.
        peers: this process among those that share the work.

    Raises:
        InputError: there is no text of two tokens to learn from.
    """
    learned_from = np.flatnonzero(texts.lengths > 1)
    held_out = [dev[int(number)] for number in np.flatnonzero(dev.lengths > 1)]
    if not len(learned_from):
        raise InputError("no training passage has two tokens: give passages of documents that are not held out")

    def accumulate(rows: np.ndarray, step: int) -> float:
        chosen = [texts[int(number)] for number in learned_from[rows]]
        put = [blanks.put(ids, params.seed, step, int(row)) for row, ids in zip(rows, chosen, strict=True)]
        total = sum(len(places) for _, places in put)
        loss = 0.0
        for scores, wanted, counts in _pieces(encoder, head, chosen, put, params, step, peers):
            share = counts * torch.nn.functional.cross_entropy(scores.float(), wanted, reduction="sum") / total
            share.backward()
            loss += share.item()
        if not divides(params, peers):
            peers.add_gradients(encoder.model.parameters())
        return peers.add(loss)

    def score(step: int) -> float | None:
        return _share_filled(encoder, head, held_out, blanks, params, peers) if held_out else None

    def n_tokens(rows: np.ndarray) -> int:
        return int(texts.lengths[learned_from[rows]].sum())

    n = len(learned_from)
    schedule = [rows for at in range(params.epochs) for rows in plan_batches(n, params.batch_size, params.seed, at)]
    return Task(schedule, accumulate, score, digest([key, blanks.token, blanks.share]), n_tokens)


def _share_filled(
    encoder: TrainableEncoder,
    head: Callable[[Tensor], Tensor],
    texts: Sequence[np.ndarray],
    blanks: Blanks,
    params: OptimiserParams,
    peers: Peers,
) -> float:
    """How much of the blanks in ``texts``, the same ones every time, is filled right."""
    encoder.model.eval()
    put = [blanks.put(ids, params.seed, _DEV, row) for row, ids in enumerate(texts)]
    with torch.no_grad():
        right = sum(
            int((scores.argmax(dim=1) == wanted).sum()) * counts
            for scores, wanted, counts in _pieces(encoder, head, texts, put, params, _DEV, peers)
        )
    return peers.add(right) / sum(len(chosen) for _, chosen in put)


def _pieces(
    encoder: TrainableEncoder,
    head: Callable[[Tensor], Tensor],
    texts: Sequence[np.ndarray],
    put: Sequence[tuple[np.ndarray, np.ndarray]],
    params: OptimiserParams,
    step: int,
    peers: Peers,
) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """Scores of all tokens at every blank [m, v] and the tokens that were there [m], a micro-batch at a time.

    And whether it counts: where ``peers`` divide the weights, one that has fewer does some text again, for nothing.
    """
    lengths = np.array([len(ids) for ids in texts])
    pieces = micro_batches(lengths, params.micro_batch_tokens)
    for number in in_step(params, peers).filled_up(peers.share(len(pieces))):
        piece = piece_at(pieces, number)
        seed_dropout(params.seed, step, len(pieces) if number is None else number)
        features = encoder.features([put[i][0] for i in piece])
        places = [(row, position) for row, i in enumerate(piece) for position in put[i][1]]
        rows, positions = (torch.tensor(part, device=encoder.device) for part in zip(*places, strict=True))
        wanted = np.concatenate([texts[i][put[i][1]] for i in piece]).astype(np.int64)
        with arithmetic(encoder.model, half=params.bf16):
            scores = head(hidden_states(encoder.model, features)[rows, positions - 1])
        yield scores, torch.from_numpy(wanted).to(encoder.device), number is not None
