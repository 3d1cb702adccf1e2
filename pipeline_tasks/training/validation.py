"""The score that picks a checkpoint: NDCG@10 of exact search over the development passages."""

import numpy as np
import torch

from pipeline_tasks.encoders.trunk import Encoder
from pipeline_tasks.training.batches import micro_batches
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.data.tokens import Tokens

CUTOFF = 10


def ranks_of_positives(
    queries: np.ndarray, passages: np.ndarray, positives: np.ndarray, block: int = 1024
) -> np.ndarray:
    """1-based rank of each query's positive among all passages; ties count against it.

    So an encoder that maps every text to one vector ranks every positive last, not first.

    Shapes:
        queries: [q, d]; passages: [p, d]; positives: [q] passage indices; returns [q].
    """
    ranks = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        scores = queries[part] @ passages.T
        own = np.take_along_axis(scores, positives[part, None], axis=1)
        ranks[part] = (scores >= own).sum(axis=1)
    return ranks


def ndcg_of_single_positive(ranks: np.ndarray) -> float:
    """Mean NDCG@10 where each query has one relevant passage: 1 / log2(1 + rank), or 0 beyond rank 10."""
    return float(np.where(ranks <= CUTOFF, 1.0 / np.log2(1.0 + ranks), 0.0).mean())


def embed(
    encoder: Encoder,
    sequences: Tokens,
    micro_batch_tokens: int,
    autocast: bool,
    unpooled: np.ndarray | None = None,
) -> np.ndarray:
    """Embeddings of token sequences in their order, without dropout or gradients.

    Shapes:
        returns [n, d] float32.
    """
    encoder.model.eval()
    vectors = np.empty((len(sequences), encoder.model.config.hidden_size), dtype=np.float32)
    with torch.no_grad(), torch.autocast(encoder.device.type, torch.bfloat16, enabled=autocast):
        for piece in micro_batches(sequences.lengths, micro_batch_tokens):
            first = None if unpooled is None else unpooled[piece]
            batch = encoder.encode(encoder.features([sequences[i] for i in piece], first))
            vectors[piece] = batch.cpu().numpy()
    return vectors


def validate(encoder: Encoder, dev: Rows, micro_batch_tokens: int, autocast: bool) -> float:
    """NDCG@10 of ``encoder`` on ``dev``."""
    queries = embed(encoder, dev.queries, micro_batch_tokens, autocast, dev.unpooled)
    passages = embed(encoder, dev.passages, micro_batch_tokens, autocast)
    return ndcg_of_single_positive(ranks_of_positives(queries[dev.query_of], passages, dev.positive_of))
