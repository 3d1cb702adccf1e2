"""The score that picks a checkpoint: NDCG@10 of exact search over the development passages, by grade where judged.

As an evaluation's score it is the mean over intents of the mean over their queries.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from pipeline_tasks.encoders.trunk import TrainableEncoder
from pipeline_tasks.training.compute.arithmetic import arithmetic
from pipeline_tasks.training.compute.batches import micro_batches, piece_at
from pipeline_tasks.training.data.ragged import Ragged
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.data.tokens import Tokens
from pipeline_tasks.training.parallel.peers import ALONE, Peers

CUTOFF = 10
_QUERIES = 1024
"""Queries at once, fewer where the passages are many."""
_SCORES = 1 << 26
"""Scores at once, however many passages there are: 256 MiB in float32, and half of that again for what they say."""


def ranks_of_positives(
    queries: np.ndarray,
    passages: np.ndarray,
    positives: np.ndarray,
    answers: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """1-based rank of each query's positive among all passages; ties, and scores that are no numbers, count against it.

    So an encoder that maps every text to one vector ranks every positive last, not first.

    Args:
        queries: vectors.
        passages: vectors.
        positives: what is ranked.
        answers: of each query, passages that are no wrong answers: they are not counted, wherever they stand.

    Shapes:
        queries: [q, d]; passages: [p, d]; positives: [q] passage indices; answers: q arrays of them; returns [q].
    """
    ranks = np.empty(len(queries), dtype=np.int64)
    block = max(1, min(_QUERIES, _SCORES // max(1, len(passages))))
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        scores = queries[part] @ passages.T
        own = np.take_along_axis(scores, positives[part, None], axis=1)
        above = ~(scores < own)
        for row, known in enumerate(answers[part] if answers else ()):
            above[row, known] = False
            above[row, positives[start + row]] = True
        ranks[part] = above.sum(axis=1)
    return ranks


def mean_ndcg(ranks: np.ndarray, grades: np.ndarray, query_of: np.ndarray, intents: np.ndarray | None = None) -> float:
    """Mean NDCG@10 over queries, from the ranks of what is relevant to them; the gain is the grade.

    With ``intents`` it is the mean over these of the mean over their queries.

    Shapes:
        ranks, grades, query_of: [n], one of each for a relevant passage of a query; every query number up to the
        highest has one. intents: [q], the number of each query's.

    Source:
        DMRetriever, Table 2.
    """
    gains = np.where(ranks <= CUTOFF, grades / np.log2(1.0 + ranks), 0.0)
    order = np.lexsort((-grades, query_of))
    starts = np.searchsorted(query_of[order], query_of[order])
    best = np.arange(len(order)) - starts + 1
    ideal = np.where(best <= CUTOFF, grades[order] / np.log2(1.0 + best), 0.0)
    found = np.bincount(query_of, gains) / np.bincount(query_of[order], ideal)
    groups = [found] if intents is None else [found[intents == one] for one in np.unique(intents)]
    return float(np.mean([group.mean() for group in groups]))


def embed(
    encoder: TrainableEncoder,
    sequences: Tokens | Ragged,
    micro_batch_tokens: int,
    autocast: bool,
    unpooled: np.ndarray | None = None,
    which: np.ndarray | None = None,
    peers: Peers = ALONE,
) -> np.ndarray:
    """Embeddings of token sequences in their order, or of those in ``which``, without dropout or gradients.

    Each of ``peers`` encodes its share and then has all; one with fewer pieces encodes a text for nothing, so that all
    call the model as often.

    Shapes:
        which: [n] numbers of sequences; returns [n, d] float32.
    """
    encoder.model.eval()
    which = np.arange(len(sequences)) if which is None else which
    vectors = np.zeros((len(which), encoder.width), dtype=np.float32)
    pieces = micro_batches(sequences.lengths[which], micro_batch_tokens)
    with torch.no_grad(), arithmetic(encoder.model, half=autocast):
        for number in peers.filled_up(peers.share(len(pieces))):
            piece = piece_at(pieces, number)
            first = None if unpooled is None else unpooled[which[piece]]
            batch = encoder.encode(encoder.features([sequences[i] for i in which[piece]], first))
            if number is not None:
                vectors[piece] = batch.cpu().numpy()
    return peers.merged(vectors)


def validate(
    encoder: TrainableEncoder, dev: Rows, micro_batch_tokens: int, autocast: bool, peers: Peers = ALONE
) -> float:
    """NDCG@10 of ``encoder`` on ``dev``, whose sources are intents; a row's target, if any, is its positive's grade.

    Every intent counts alike, and within it every query. Graded rows with the same words are one query, or one of each
    intent that asks them, by what was judged for that intent. Without grades a row is a query of its own, in whose
    ranking other known answers of its query are left out. NaN where a vector is no vector of numbers. ``peers`` share
    the work, and all have the result.
    """
    queries = embed(encoder, dev.queries, micro_batch_tokens, autocast, dev.unpooled, peers=peers)
    passages = embed(encoder, dev.passages, micro_batch_tokens, autocast, peers=peers)
    if not (np.isfinite(queries).all() and np.isfinite(passages).all()):
        return math.nan
    if not len(dev.targets_of.values):
        answers = [dev.answers[query] for query in dev.query_of]
        ranks = ranks_of_positives(queries[dev.query_of], passages, dev.positive_of, answers)
        return mean_ndcg(ranks, grades(dev), np.arange(len(dev)), dev.source_of)
    ranks = ranks_of_positives(queries[dev.query_of], passages, dev.positive_of)
    in_intent = dev.query_of * len(dev.sources) + dev.source_of
    once = _once(dev, in_intent)
    asked, query_of = np.unique(in_intent[once], return_inverse=True)
    return mean_ndcg(ranks[once], grades(dev)[once], query_of, asked % len(dev.sources))


def _once(rows: Rows, query_of: np.ndarray) -> np.ndarray:
    """Of rows with the same query and the same positive, texts that stand in a set twice, the one of the best grade."""
    order = np.lexsort((-grades(rows), rows.positive_of, query_of))
    pairs = np.stack([query_of, rows.positive_of])[:, order]
    first = np.append(True, (np.diff(pairs) != 0).any(axis=0))
    return np.sort(order[first])


def grades(rows: Rows) -> np.ndarray:
    """Of the positive of each row, [n]: the row's first target, or 1 where it has none."""
    graded = rows.targets_of.lengths > 0
    found = np.ones(len(rows))
    found[graded] = rows.targets_of.values[rows.targets_of.offsets[:-1][graded]]
    return found
