"""p-MRR: how far a changed instruction moves exactly those passages whose relevance it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline_tasks.core.errors import InputError

P_MRR = "p-mrr"


def p_mrr(
    before: Sequence[Sequence[str]],
    after: Sequence[Sequence[str]],
    judged_before: Sequence[Mapping[str, int]],
    judged_after: Sequence[Mapping[str, int]],
) -> np.ndarray:
    """Of each query, from -1 to 1: above 0 where the ranking follows the instruction, 0 where it stays as it was.

    Of a passage that is no longer relevant it is ``1 - before / after`` where its rank falls and ``after / before - 1``
    where it rises; of one that becomes relevant the same with the other sign. A query's value is their mean. A passage
    that is not in a ranking comes right after its end.

    Args:
        before: ids of passages per query, best first, under the original instruction.
        after: the same under the changed one.
        judged_before: passage id -> grade, per query, under the original instruction.
        judged_after: the same under the changed one.

    Shapes: returns [q].

    Raises:
        InputError: the relevance of no passage changes.

    Source: Weller et al. 2024, "FollowIR: Evaluating and Teaching Information Retrieval Models to Follow Instructions",
        3.3, where all changes are from relevant to not relevant.
    """
    return np.array([_of_query(*one) for one in zip(before, after, judged_before, judged_after, strict=True)])


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Passages whose relevance changes -> 1 where they lose it, -1 where they gain it."""
    signs = {name: (before.get(name, 0) > 0) - (after.get(name, 0) > 0) for name in before.keys() | after.keys()}
    return {name: signs[name] for name in sorted(signs) if signs[name]}


def _of_query(
    before: Sequence[str], after: Sequence[str], judged_before: Mapping[str, int], judged_after: Mapping[str, int]
) -> float:
    signs = changed(judged_before, judged_after)
    if not signs:
        raise InputError("a changed instruction changes the relevance of no passage: leave the query out")
    old, new = (_ranks(ranking, signs) for ranking in (before, after))
    moved = np.where(old >= new, new / old - 1, 1 - old / new)
    return float((np.array([*signs.values()]) * moved).mean())


def _ranks(ranking: Sequence[str], wanted: Mapping[str, int]) -> np.ndarray:
    """1-based ranks of ``wanted``, [n]."""
    places = {name: rank for rank, name in enumerate(ranking, 1)}
    return np.array([places.get(name, len(ranking) + 1) for name in wanted], np.float64)
