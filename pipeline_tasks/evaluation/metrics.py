"""What rankings score by trec_eval, through pytrec_eval: a value for each query and measure.

A measure is written ``ndcg@10``: a kind and a cut-off. The kinds are

=============  =================================================================================================
``ndcg``       DCG over the DCG of the best possible ranking; the gain is the grade itself, not 2^grade - 1
``map``        mean of the precision at each relevant passage, over all relevant ones
``recall``     share of the relevant passages that are found
``precision``  share of what is found that is relevant
``hit``        1 where any relevant passage is found
``mrr``        1 / rank of the first relevant passage, 0 where there is none
=============  =================================================================================================

each among the first k. With ``-judged`` behind it (``ndcg@10-judged``) passages that nobody judged are left out of the
ranking before it is cut. A grade of 0 or below is not relevant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.core.errors import InputError

_KINDS = {
    "ndcg": "ndcg_cut",
    "map": "map_cut",
    "recall": "recall",
    "precision": "P",
    "hit": "success",
    "mrr": "recip_rank",
}
_MEASURE = re.compile(rf"({'|'.join(_KINDS)})@([1-9]\d{{0,5}})(-judged)?")


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        kind: a key of the table above.
        k: cut-off rank.
        judged_only: passages without a judgement are passed over.
    """

    kind: str
    k: int
    judged_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Measure:
        """The measure that is written so.

        Raises:
            InputError: it is none.
        """
        found = _MEASURE.fullmatch(text)
        if not found:
            raise InputError(f"{text!r} is no measure: write one of {', '.join(_KINDS)} like ndcg@10 or ndcg@10-judged")
        return cls(found[1], int(found[2]), bool(found[3]))


def score(
    rankings: Sequence[Sequence[str]], judgements: Sequence[Mapping[str, int]], measures: Sequence[str]
) -> dict[str, np.ndarray]:
    """The value of each measure for each query, as trec_eval has it; 0 where nothing is ranked, or is relevant.

    Args:
        rankings: ids of passages per query, best first.
        judgements: passage id -> grade, per query.
        measures: as written.

    Shapes: returns measure -> [q] in [0, 1].

    Raises:
        InputError: no such measure, an id twice in a ranking, or different numbers of rankings and judgements.

    Source: trec_eval 9.0; Van Gysel and de Rijke 2018, "Pytrec_eval: an extremely fast Python interface to trec_eval".
    """
    if len(rankings) != len(judgements):
        raise InputError(
            f"{len(rankings)} rankings and {len(judgements)} sets of judgements: give one of each per query"
        )
    for row, ids in enumerate(rankings):
        if len(set(ids)) != len(ids):
            raise InputError(f"ranking {row} names a passage twice: drop duplicates before scoring")
    qrels = {str(row): {n: max(grade, 0) for n, grade in judged.items()} for row, judged in enumerate(judgements)}
    found: dict[str, np.ndarray] = {}
    for group in _groups([Measure.parse(text) for text in measures]):
        runs = _runs(rankings, judgements, group)
        found |= _evaluated(qrels, runs, group, len(rankings))
    return {text: found[text] for text in measures}


def _groups(measures: list[Measure]) -> list[list[Measure]]:
    """Those that trec_eval can count of one run: a reciprocal rank has no cut-off of its own, so its run is cut."""
    groups: dict[tuple[bool, int], list[Measure]] = {}
    for measure in measures:
        groups.setdefault((measure.judged_only, measure.k if measure.kind == "mrr" else 0), []).append(measure)
    return list(groups.values())


def _runs(
    rankings: Sequence[Sequence[str]], judgements: Sequence[Mapping[str, int]], group: list[Measure]
) -> dict[str, dict[str, float]]:
    """Rankings as trec_eval reads them, with scores that fall from rank to rank."""
    depth = max(measure.k for measure in group)
    runs = {}
    for row, (ids, judged) in enumerate(zip(rankings, judgements, strict=True)):
        seen = [name for name in ids if name in judged] if group[0].judged_only else ids
        runs[str(row)] = {name: float(depth - rank) for rank, name in enumerate(seen[:depth])}
    return runs


def _evaluated(
    qrels: dict[str, dict[str, int]], runs: dict[str, dict[str, float]], group: list[Measure], n: int
) -> dict[str, np.ndarray]:
    import pytrec_eval

    asked = {_KINDS[m.kind] if m.kind == "mrr" else f"{_KINDS[m.kind]}.{m.k}" for m in group}
    values = pytrec_eval.RelevanceEvaluator(qrels, asked).evaluate(runs)
    found = {}
    for measure in group:
        name = _KINDS[measure.kind] if measure.kind == "mrr" else f"{_KINDS[measure.kind]}_{measure.k}"
        text = f"{measure.kind}@{measure.k}{'-judged' * measure.judged_only}"
        found[text] = np.array([values.get(str(row), {}).get(name, 0.0) for row in range(n)])
    return found
