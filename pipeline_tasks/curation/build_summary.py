"""What a build of triplets came to: how hard the negatives are, and why candidates were passed over.

Each block of queries gives a table, and the tables of all blocks add up: cosines are counted by what they are to four
digits, which are as many as are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.curation.negative_rules import SKIPS, Chosen

_PERCENTILES = (5, 25, 50, 75, 95)
_DIGITS = 4
_TOLD = pa.schema([
    ("what", pa.string()), ("intent", pa.string()), ("value", pa.float64()), ("n", pa.int64()), ("sum", pa.float64())
])  # fmt: skip


def tell_skipped(skipped: np.ndarray, intents: Sequence[str]) -> pa.Table:
    """How many candidates each rule passed over.

    Shapes: skipped [intents, 6].
    """
    rows = [
        {"what": f"skipped_{rule}", "intent": intent, "n": int(n)}
        for intent, numbers in zip(intents, skipped, strict=True)
        for rule, n in zip(SKIPS, numbers, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=_TOLD)


def tell_chosen(chosen: Chosen, positive: np.ndarray, intent: np.ndarray, intents: Sequence[str]) -> pa.Table:
    """Cosines of positives and negatives and the gaps between them, and queries with fewer negatives than asked.

    Shapes: positive and intent [q].
    """
    kept = chosen.n > 0
    there = np.arange(chosen.codes.shape[1]) < chosen.n[:, None]
    owner = np.nonzero(there)[0]
    negative = chosen.scores[there]
    short = int((kept & (chosen.n < chosen.codes.shape[1])).sum())
    return pa.concat_tables([
        tell_skipped(chosen.skipped, intents),
        _counted("positive", positive[kept], intent[kept], intents),
        _counted("negative", negative, intent[owner], intents),
        _counted("gap", positive[owner] - negative, intent[owner], intents),
        pa.Table.from_pylist([{"what": "short", "n": short}], schema=_TOLD),
    ])  # fmt: skip


def _counted(what: str, values: np.ndarray, intent: np.ndarray, intents: Sequence[str]) -> pa.Table:
    exact = values.astype(np.float64)
    found = pa.table({"intent": intent, "value": np.round(exact, _DIGITS), "exact": exact})
    found = found.group_by(["intent", "value"], use_threads=False).aggregate([("exact", "count"), ("exact", "sum")])
    names = pa.array(intents, pa.string()).take(found["intent"])
    columns = [pa.repeat(pa.scalar(what), len(found)), names, found["value"], found["exact_count"], found["exact_sum"]]
    return pa.table(columns, schema=_TOLD)


def summary(tables: Iterable[pa.Table]) -> dict[str, float]:
    """Counters of a build, for the lineage.

    ``positive``, ``negative`` and ``gap`` (a positive's cosine minus its negative's) come with ``_score_min``,
    ``_mean``, ``_max`` and percentiles ``_p05`` to ``_p95``; ``skipped_<rule>`` counts candidates; each intent adds
    ``triplets/<intent>``, ``negatives/<intent>``, ``gap_score_mean/<intent>`` and ``skipped_<rule>/<intent>``.
    """
    counts = pa.concat_tables([_TOLD.empty_table(), *tables])
    counts = counts.group_by(["what", "intent", "value"], use_threads=False).aggregate([("n", "sum"), ("sum", "sum")])
    counts = counts.rename_columns(_TOLD.names)
    found: dict[str, float] = {"negatives": _n(counts, "negative"), "short_queries": _n(counts, "short")}
    for what in ("positive", "negative", "gap"):
        found |= _spread(f"{what}_score", _of(counts, what))
    found |= {f"skipped_{rule}": _n(counts, f"skipped_{rule}") for rule in SKIPS}
    for intent in sorted(pc.unique(counts["intent"]).drop_null().to_pylist()):
        mine = counts.filter(pc.equal(counts["intent"], intent))
        found[f"triplets/{intent}"], found[f"negatives/{intent}"] = _n(mine, "positive"), _n(mine, "negative")
        if found[f"negatives/{intent}"]:
            found[f"gap_score_mean/{intent}"] = _mean(_of(mine, "gap"))
        found |= {f"skipped_{rule}/{intent}": _n(mine, f"skipped_{rule}") for rule in SKIPS}
    return found


def _of(counts: pa.Table, what: str) -> pa.Table:
    return counts.filter(pc.equal(counts["what"], what))


def _n(counts: pa.Table, what: str) -> int:
    return pc.sum(_of(counts, what)["n"]).as_py() or 0


def _mean(counts: pa.Table) -> float:
    return round(pc.sum(counts["sum"]).as_py() / pc.sum(counts["n"]).as_py(), _DIGITS)


def _spread(name: str, counts: pa.Table) -> dict[str, float]:
    if not len(counts):
        return {}
    counts = counts.sort_by("value")
    values, ends = counts["value"].to_numpy(), np.cumsum(counts["n"].to_numpy())
    places = np.array(_PERCENTILES) / 100 * (ends[-1] - 1)
    low, high = (values[np.searchsorted(ends, at, side="right")] for at in (np.floor(places), np.ceil(places)))
    levels = low + (high - low) * (places % 1)
    found = {"min": values[0], "mean": _mean(counts), "max": values[-1]}
    found |= {f"p{level:02d}": value for level, value in zip(_PERCENTILES, levels, strict=True)}
    return {f"{name}_{what}": round(float(value), _DIGITS) for what, value in found.items()}
