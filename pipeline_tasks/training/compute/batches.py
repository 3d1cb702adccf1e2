"""Which rows make a batch, and how a batch is cut for the machine. Pure arithmetic on numpy arrays."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def plan_batches(
    n: int,
    batch_size: int,
    seed: int,
    epoch: int,
    apart: Sequence[np.ndarray] = (),
    together: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Shuffle ``n`` rows into ceil(n / batch_size) batches that differ in size by one row, or one unit, at most.

    The plan is a function of the arguments alone. Rows that share a key, directly or through other rows, never
    meet in a batch as long as there are no fewer batches than rows so linked.

    Args:
        apart: key arrays [n] of small integers; rows with an equal key in one of them (same query, same positive)
            are kept apart.
        together: [n]; rows with an equal number are a unit, whose rows meet, whatever keys they share. Where there are
            fewer units than batches it has no say.

    Shapes:
        returns arrays of row numbers that together hold each of 0..n-1 once.
    """
    if n == 0:
        return []
    random, n_batches = np.random.default_rng([seed, epoch]), -(-n // batch_size)
    units = np.zeros(0, np.int64) if together is None else np.unique(together, return_inverse=True)[1]
    n_units = len(np.unique(units))
    if n_units < n_batches:
        return _deal(n, n_batches, _linked(apart) if apart else None, random)
    in_units = np.argsort(units, kind="stable")
    rows_of = np.split(in_units, np.searchsorted(units[in_units], np.arange(1, n_units)))
    labels = units[_linked([*apart, units])[[rows[0] for rows in rows_of]]]
    return [np.concatenate([rows_of[unit] for unit in hand]) for hand in _deal(n_units, n_batches, labels, random)]


def _deal(n: int, n_batches: int, labels: np.ndarray | None, random: np.random.Generator) -> list[np.ndarray]:
    """Shuffle ``n`` units into batches; those with one label, [n] numbers below ``n``, go to different ones."""
    order = random.permutation(n)
    if labels is not None:
        place = random.permutation(n)[labels]
        order = order[np.argsort(place[order], kind="stable")]
    # Linked units are neighbours in ``order``; dealt out like cards, they go to different batches.
    return [order[hand::n_batches] for hand in random.permutation(n_batches)]


def _linked(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Label rows so that those connected by equal keys have one label, the lowest row number among them.

    Memory is for a few numbers a row, and for some more of each row whose key another row had before.
    """
    n = len(keys[0])
    alike = [_first_with(key) for key in keys]
    again = [np.flatnonzero(first != np.arange(n)) for first in alike]
    ends = np.concatenate(again), np.concatenate([first[rows] for first, rows in zip(alike, again, strict=True)])
    del alike, again
    links = coo_array((np.ones(len(ends[0]), bool), ends), (n, n))
    return _first_with(connected_components(links, directed=False)[1])


def _first_with(key: np.ndarray) -> np.ndarray:
    """The first row with each row's number, [n]."""
    first = np.empty(int(key.max(initial=-1)) + 1, np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of several rows with a number, the last to be written is the first
    return first[key]


def micro_batches(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Cut texts into micro-batches of similar length, longest first, so that little of them is padding.

    A micro-batch holds at most ``max_tokens`` tokens with padding, and no text shorter than half of its
    longest; one text longer than ``max_tokens`` stands alone.

    Shapes:
        lengths: [n]; returns arrays of positions in ``lengths``.
    """
    order = np.argsort(-lengths, kind="stable")
    cuts, start = [], 0
    for position, index in enumerate(order):
        longest = lengths[order[start]]
        full = (position - start + 1) * longest > max_tokens
        if position > start and (full or 2 * lengths[index] < longest):
            cuts.append(position)
            start = position
    return np.split(order, cuts) if len(order) else []


def piece_at(pieces: Sequence[np.ndarray], number: int | None) -> np.ndarray:
    """The micro-batch of that number; for None the last text again, for nothing, so that all call the model as often.

    See :meth:`~pipeline_tasks.training.parallel.peers.Peers.filled_up`, which is where None comes from.
    """
    return pieces[-1][-1:] if number is None else pieces[number]


def row_groups(tokens_of: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Cut the rows of a batch, in order, into groups of one row or of at most ``max_tokens`` tokens."""
    groups, start, total = [], 0, 0
    for position, tokens in enumerate(tokens_of.tolist()):
        if position > start and total + tokens > max_tokens:
            groups.append(np.arange(start, position))
            start, total = position, 0
        total += tokens
    return [*groups, np.arange(start, len(tokens_of))] if len(tokens_of) else []
