"""Compiled loops behind exact search: screen, keep candidates, score them. Imported inside functions only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.compiled import compiled, in_any_order

# One comparison of 32 scores of two bytes is an instruction of processors that this runs on.
_TILE = 32
_CLASSES = 512
_NOT_SIGN = np.int32(2**31 - 1)


class ScreenedQueries(NamedTuple):
    """Queries, and how far off a screened score and a sum can be with any passage so far of the shard.

    Attributes:
        vectors: [q, d], float32.
        slack: [q], float32: between a screened score and the exact one.
        fuzz: [q], float64: between two sums in float64 of one inner product.
    """

    vectors: np.ndarray
    slack: np.ndarray
    fuzz: np.ndarray


class ShardPassages(NamedTuple):
    """Passages of a shard.

    Attributes:
        vectors: [n, d], float32.
        keys: [n], int32, negative where a passage is to be left out.
    """

    vectors: np.ndarray
    keys: np.ndarray


class Best(NamedTuple):
    """The best ``k`` of each query so far, and candidates of one shard that have not been scored yet.

    Attributes:
        scored: [q, k], int64: scores and keys as :func:`~pipeline_tasks.retrieval.search._packed` joins them; unsorted.
        least: [q], float32: the k-th best score of all passages so far is not below it.
        screened, rows: [q, c], int32: screened scores of the candidates by :func:`_place`, and their rows.
        n: [q], int32: candidates of each query.
    """

    scored: np.ndarray
    least: np.ndarray
    screened: np.ndarray
    rows: np.ndarray
    n: np.ndarray


@compiled
def dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    """Inner product, added up in float64 in one fixed order and rounded once.

    Products of float32 are exact in float64, so the result is the same on every machine and in every block.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.size // 8 * 8
    for i in range(0, whole, 8):
        s0 += np.float64(a[i]) * np.float64(b[i])
        s1 += np.float64(a[i + 1]) * np.float64(b[i + 1])
        s2 += np.float64(a[i + 2]) * np.float64(b[i + 2])
        s3 += np.float64(a[i + 3]) * np.float64(b[i + 3])
        s4 += np.float64(a[i + 4]) * np.float64(b[i + 4])
        s5 += np.float64(a[i + 5]) * np.float64(b[i + 5])
        s6 += np.float64(a[i + 6]) * np.float64(b[i + 6])
        s7 += np.float64(a[i + 7]) * np.float64(b[i + 7])
    for i in range(whole, a.size):
        s0 += np.float64(a[i]) * np.float64(b[i])
    return np.float32(((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7)))


@in_any_order
def _fast_dots(
    query: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[float, float, float, float]:
    """Four at a time: the processor waits for memory of all four at once."""
    sum_a = sum_b = sum_c = sum_d = 0.0
    for i in range(query.size):
        sum_a += query[i] * np.float64(a[i])
        sum_b += query[i] * np.float64(b[i])
        sum_c += query[i] * np.float64(c[i])
        sum_d += query[i] * np.float64(d[i])
    return sum_a, sum_b, sum_c, sum_d


@compiled
def _place(bits: np.int32) -> np.int32:
    """Bits of a float as a whole number that orders as the floats do; of such a number, the bits."""
    return bits ^ ((bits >> np.int32(31)) & _NOT_SIGN)


@compiled
def _limit(least: np.float32, slack: np.float32) -> np.int32:
    """Place of the lowest product in float32 whose exact score can be ``least``."""
    lowest = np.empty(1, np.float32)
    lowest[0] = np.nextafter(least - slack, np.float32(-np.inf))
    return _place(lowest.view(np.int32)[0])


@compiled
def _screened(place: np.int32, shift: int) -> np.int32:
    """Screened score of the lowest product that can be at ``place``: rounding takes negative ones half a place down."""
    half = (1 << shift) >> 1
    return (place - half if place < 0 else place) >> shift


@compiled
def _lowest(place: np.integer, shift: int, slack: np.float32) -> np.float32:
    """The lowest exact score of a passage with that screened score: its product was rounded by half a place at most."""
    bits = np.empty(1, np.int32)
    bits[0] = _place((place << shift) - ((1 << shift) >> 1))
    return np.nextafter(bits.view(np.float32)[0] - slack, np.float32(-np.inf))


@compiled
def _tighten(row: int, shift: int, asked: ScreenedQueries, best: Best) -> None:
    """Raise ``least`` to what the k-th best is at least, and drop the candidates that are certainly below it.

    Screened scores are counted in classes of equal width, which guesses no jump wrong as looking for the k-th would.
    """
    k, n, slack = best.scored.shape[1], best.n[row], asked.slack[row]
    places, rows, scored = best.screened[row], best.rows[row], best.scored[row]
    low = np.int64(_limit(best.least[row], slack) >> shift)
    top = low
    for i in range(n):
        top = max(top, np.int64(places[i]))
    wide = 0
    while (top - low) >> wide >= _CLASSES:
        wide += 1
    counts = np.zeros(_CLASSES, np.int32)
    for i in range(n):
        counts[max(places[i] - low, 0) >> wide] += 1
    for i in range(k):
        counts[min(max((~(scored[i] >> 32) >> shift) - low, 0) >> wide, _CLASSES - 1)] += 1
    at, above = _CLASSES - 1, counts[_CLASSES - 1]
    while above < k:
        at -= 1
        above += counts[at]
    if at:
        best.least[row] = max(best.least[row], _lowest(low + (at << wide), shift, slack))
    limit, kept = _screened(_limit(best.least[row], slack), shift), 0
    for i in range(n):
        place = places[i]
        places[kept], rows[kept] = place, rows[i]
        kept += place >= limit
    best.n[row] = kept


@compiled
def _settle(row: int, asked: ScreenedQueries, given: ShardPassages, best: Best) -> None:
    """Score the candidates of a query, and keep the best ``k``."""
    k, n, fuzz = best.scored.shape[1], best.n[row], asked.fuzz[row]
    if n == 0:
        return
    query, rows, vectors = asked.vectors[row].astype(np.float64), best.rows[row], given.vectors
    score, both = np.empty(1, np.float32), np.empty(k + n, np.int64)
    bits = score.view(np.int32)
    both[:k] = best.scored[row]
    for first in range(0, n, 4):
        a, b, c, d = rows[first], rows[min(first + 1, n - 1)], rows[min(first + 2, n - 1)], rows[min(first + 3, n - 1)]
        totals = _fast_dots(query, vectors[a], vectors[b], vectors[c], vectors[d])
        for i in range(first, min(first + 4, n)):
            # Mostly the slow order of ``dot`` is not needed: a sum ``fuzz`` off where float32 rounds is certain.
            total = totals[i - first]
            low, high = np.float32(total - fuzz), np.float32(total + fuzz)
            score[0] = (low if low == high else dot(asked.vectors[row], vectors[rows[i]])) + np.float32(0)
            both[k + i] = (np.int64(~_place(bits[0])) << 32) | np.int64(given.keys[rows[i]])
    best.scored[row] = np.partition(both, k - 1)[:k]
    bits[0] = _place(np.int32(~(best.scored[row, k - 1] >> 32)))
    best.least[row] = max(best.least[row], score[0])
    best.n[row] = 0


@compiled
def settle(shift: int, asked: ScreenedQueries, given: ShardPassages, best: Best) -> None:
    """Score what can still belong: afterwards ``best`` holds the best ``k`` of all passages so far."""
    for row in range(best.n.size):
        if 2 * best.n[row] > 3 * best.scored.shape[1]:
            _tighten(row, shift, asked, best)
        _settle(row, asked, given, best)


@compiled
def begin(kth: np.ndarray, shift: int, asked: ScreenedQueries, best: Best) -> None:
    """Learn that ``k`` passages of each query have screened scores of these bits or higher; negative: nothing known."""
    for row in range(kth.size):
        if kth[row] >= 0:
            best.least[row] = max(best.least[row], _lowest(np.int32(kth[row]), shift, asked.slack[row]))


@compiled
def offer(screen: np.ndarray, shift: int, first: int, asked: ScreenedQueries, given: ShardPassages, best: Best) -> None:
    """Note as candidates the passages of a block that the screen cannot rule out.

    A passage is ruled out where its screened score is more than ``slack`` below what the k-th best score is at least.
    Scores are compared by their bits, which order as the numbers do where the limit is not negative. Candidates are
    scored early only where they are too many to be kept, as where all passages are equal.

    Args:
        screen: [q, n], bits of bfloat16 (``shift`` 16) or of float32 (``shift`` 0).
        shift: bits that the screen lacks of a float32.
        first: row of the shard at which the block begins.
        asked: queries.
        given: passages of the shard.
        best: written to.
    """
    room, n_passages = best.rows.shape[1], screen.shape[1]
    for row in range(screen.shape[0]):
        limit = _screened(_limit(best.least[row], asked.slack[row]), shift)
        for start in range(0, n_passages, _TILE):
            tile = screen[row, start : start + _TILE]
            highest = tile[0]
            for i in range(1, tile.size):
                highest = max(highest, tile[i])
            if highest < limit and limit >= 0:
                continue
            if best.n[row] + _TILE > room:
                _tighten(row, shift, asked, best)
                if best.n[row] + _TILE > room - room // 8:
                    _settle(row, asked, given, best)
                limit = _screened(_limit(best.least[row], asked.slack[row]), shift)
            n = best.n[row]
            for i in range(tile.size):
                place = np.int32(tile[i])
                if limit < 0:
                    place ^= (place >> np.int32(31)) & (_NOT_SIGN >> np.int32(shift))
                if place >= limit and given.keys[first + start + i] >= 0:
                    best.screened[row, n], best.rows[row, n] = place, first + start + i
                    n += 1
            best.n[row] = n


@compiled
def dots(queries: np.ndarray, passages: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The exact score of each query with the passages named for it; -inf where ``at`` is negative.

    Shapes:
        queries [q, d], passages [n, d], float32; at [q, m], int64; returns [q, m], float32.
    """
    scores = np.empty(at.shape, np.float32)
    for row in range(at.shape[0]):
        for column in range(at.shape[1]):
            where = at[row, column]
            scores[row, column] = dot(queries[row], passages[where]) if where >= 0 else np.float32(-np.inf)
    return scores
