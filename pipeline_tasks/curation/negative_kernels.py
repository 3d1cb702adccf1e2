"""The rule for hard negatives as one compiled loop over rankings. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.curation.id_kernels import find
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.curation.negative_rules import Asked, Chosen, Known, Ranked, Rules

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
def _refused(code: int, row: int, asked: Asked, known: Known) -> int:
    """The rule by which a passage cannot be a negative of this query, whatever its score; -1 where it may."""
    for i in range(known.starts[asked.group[row]], known.starts[asked.group[row] + 1]):
        if known.codes[i] == code:
            return _KNOWN
    if known.hashes[code] == known.hashes[asked.positive[row]]:
        return _DUPLICATE
    return _SPLIT if known.splits[code] != asked.split[row] else -1


@compiled
def choose(
    rows: np.ndarray, ranked: Ranked, asked: Asked, known: Known, table: IdTable, rules: Rules, chosen: Chosen
) -> int:
    """Fill ``chosen`` for the queries of one block of rankings.

    Args:
        rows: row of ``asked`` of each ranking, int32; negative where nobody asks.
        ranked: rankings of one model.
        asked: queries and their positives.
        known: what is known of the passages.
        table: their numbers.
        rules: which candidates may be negatives.
        chosen: written to.

    Returns:
        Place in ``ranked.scores`` of a candidate that is not in ``table``; -1 where all are.
    """
    most = chosen.codes.shape[1]
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
        n, skipped, limit = 0, chosen.skipped[asked.intent[row]], bound(positive, rules)
        for i in range(first + rules.min_rank - 1, last):
            score = ranked.scores[i]
            if not score < limit:
                skipped[_TOO_SIMILAR] += 1
            elif score > positive - rules.absolute_margin:
                skipped[_MARGIN] += 1
            elif score > rules.max_score:
                skipped[_MAX_SCORE] += 1
            else:
                code = find(ranked.ids, i, table)
                if code < 0:
                    return i
                rule = _refused(code, row, asked, known)
                if rule >= 0:
                    skipped[rule] += 1
                    continue
                chosen.codes[row, n], chosen.scores[row, n] = code, score
                n += 1
                if n == most:
                    break
        chosen.n[row] = n
    return -1
