"""The rule for hard negatives as one compiled loop over rankings. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.curation.id_kernels import find, hash_bytes
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.curation.negative_rules import Candidates, Chosen, KnownPositives, Low, MiningQueries, Ranked, Rules

_TOO_SIMILAR, _MARGIN, _MAX_SCORE, _KNOWN, _DUPLICATE, _SPLIT = range(6)


@compiled
def bound(positive: np.float32, rules: Rules) -> np.float32:
    """What a negative's cosine must stay below: alpha times the positive's, mirrored where that is not above zero.

    A positive of -0.2 and alpha 0.75 give -0.25: below the positive by the same share, and not -0.15, which is above.
    """
    if positive > 0:
        return rules.alpha * positive
    return (np.float32(2) - rules.alpha) * positive


@compiled
def _positive_score(ranked: Ranked, first: int, last: int, positive: int, table: IdTable) -> np.float32:
    for i in range(first, last):
        if find(ranked.ids, i, table) == positive:
            return ranked.scores[i]
    return np.float32(np.nan)


@compiled
def _by_score(score: np.float32, positive: np.float32, limit: np.float32, rules: Rules) -> int:
    """The rule by which a cosine is too high; -1 where it is not."""
    if not score < limit:
        return _TOO_SIMILAR
    if score > positive - rules.absolute_margin:
        return _MARGIN
    return _MAX_SCORE if score > rules.max_score else -1


@compiled
def low_enough(
    rows: np.ndarray, ranked: Ranked, asked: MiningQueries, table: IdTable, rules: Rules, most: np.ndarray, found: Low
) -> int:
    """Find the candidates of a block of rankings that may be negatives by their cosines.

    Args:
        rows: row of ``asked`` of each ranking, int32; negative where nobody asks.
        ranked: rankings of one model.
        asked: queries and their positives; cosines of these that are NaN are looked up in the ranking.
        table: numbers of the positives.
        rules: which candidates may be negatives.
        most: how many each row of ``asked`` wants, int32.
        found: written to.

    Returns:
        How many were found.
    """
    n = 0
    for at in range(rows.size):
        row = rows[at]
        if row < 0:
            continue
        first = ranked.starts[at]
        last = min(ranked.starts[at + 1], first + rules.max_rank)
        positive = asked.positive_score[row]
        if np.isnan(positive):
            positive = _positive_score(ranked, first, ranked.starts[at + 1], asked.positive[row], table)
            asked.positive_score[row] = positive
        begin, skipped, limit = n, found.skipped[asked.intent[row]], bound(positive, rules)
        for i in range(first + rules.min_rank - 1, last):
            score = ranked.scores[i]
            rule = _by_score(score, positive, limit, rules)
            if rule >= 0:
                skipped[rule] += 1
            elif n - begin == most[row]:
                found.cut[row] = True
                break
            else:
                ids = ranked.ids
                found.hashes[n] = hash_bytes(ids.data, ids.offsets[i], ids.offsets[i + 1])
                found.scores[n] = score
                n += 1
        found.n[at] = n - begin
    return n


@compiled
def _refused(code: int, row: int, asked: MiningQueries, known: KnownPositives) -> int:
    """The rule by which a passage cannot be a negative of this query, whatever its score; -1 where it may."""
    text = known.hashes[code]
    is_copy = text == known.hashes[asked.positive[row]]
    for i in range(known.starts[asked.group[row]], known.starts[asked.group[row] + 1]):
        if known.codes[i] == code:
            return _KNOWN
        is_copy |= known.hashes[known.codes[i]] == text
    if is_copy:
        return _DUPLICATE
    return _SPLIT if known.splits[code] != asked.split[row] else -1


@compiled
def choose(candidates: Candidates, asked: MiningQueries, known: KnownPositives, chosen: Chosen) -> int:
    """Fill ``chosen`` with the first candidates of every query that may be negatives.

    Args:
        candidates: those with low enough cosines, for each row of ``asked``.
        asked: queries and their positives.
        known: what is known of the passages.
        chosen: written to.

    Returns:
        Place of a candidate that is no passage; -1 where all that were looked at are.
    """
    most = chosen.codes.shape[1]
    for row in range(candidates.starts.size - 1):
        n, skipped = 0, chosen.skipped[asked.intent[row]]
        for i in range(candidates.starts[row], candidates.starts[row + 1]):
            code = candidates.codes[i]
            if known.splits[code] < 0:
                return i
            rule = _refused(code, row, asked, known)
            if rule >= 0:
                skipped[rule] += 1
                continue
            chosen.codes[row, n], chosen.scores[row, n] = code, candidates.scores[i]
            n += 1
            if n == most:
                break
        chosen.n[row] = n
    return -1
