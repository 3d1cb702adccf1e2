"""From what files have to pairs: every row that was found is a pair, a reject that says where it stands, or counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.datasets import PAIRS

FIELDS = ("query", "positive", "passage_id", "intent", "origin")
_PART_ROWS = 10_000

Fields = dict[str, str]
Found = Iterable[tuple[str, Fields | str | None]]
"""The place of every row, and its :data:`FIELDS`, empty where it has none; None for a line that is no row, a word for a
row that is not meant to be a pair."""


@dataclass(frozen=True)
class Rules:
    """What makes a row a pair.

    Attributes:
        name: of these pairs: their origin, unless a row names one.
        intent: of rows that name none.
        intents: those that there are.
        most_characters: of a query and of a positive.
        dev_fraction: share of the positives whose pairs choose checkpoints.
        passages: ours by id, which a row may name.
    """

    name: str
    intent: str
    intents: Collection[str]
    most_characters: int
    dev_fraction: float
    passages: dict[str, dict[str, str]] = field(default_factory=dict)

    def reason(self, row: Fields | None) -> str:
        """Why a row is no pair; empty for one that is."""
        if row is None:
            return "bad_line"
        if not row["query"]:
            return "no_query"
        if row["passage_id"] and row["passage_id"] not in self.passages:
            return "unknown_passage"
        if not row["positive"] and not row["passage_id"]:
            return "no_positive"
        if max(len(row["query"]), len(row["positive"])) > self.most_characters:
            return "too_long"
        return "" if (row["intent"] or self.intent) in self.intents else "unknown_intent"

    def query_id(self, row: Fields) -> str:
        """The id of the pair that a row without a reason is: a hash of all that makes it."""
        positive = row["positive"] or self.passages[row["passage_id"]]["text"]
        return short_id(self.name, row["passage_id"], row["intent"], row["query"], positive)

    def pair(self, row: Fields) -> dict[str, Any]:
        """The pair that a row without a reason is.

        A positive that is the passage which the row names has its id, so that no ranking has the text twice. Any other
        is named by its text, so that one which answers many queries is one passage of its corpus, on one side of the
        split.
        """
        source = self.passages.get(row["passage_id"], {})
        positive, origin = row["positive"] or source["text"], row["origin"] or self.name
        is_source = positive == source.get("text", "").strip()
        positive_id = row["passage_id"] if is_source else short_id("positive", origin, positive)
        drawn = "dev" if unit_hash("read_pairs", positive_id) < self.dev_fraction else "train"
        return {
            "query_id": self.query_id(row),
            "passage_id": row["passage_id"],
            "doc_id": source.get("doc_id", ""),
            "intent": row["intent"] or self.intent,
            "query": row["query"],
            "positive_id": positive_id,
            "positive": positive,
            "passage": source.get("text", ""),
            "split": source.get("split", drawn),
            "origin": origin,
            "need_id": "",
            "need_response_id": "",
            "response_id": "",
        }


def pairs_of(
    found: Callable[[], Found], rules: Rules, run: Run, most: int = 0, enough: int = 0
) -> Iterator[dict[str, Any]]:
    """The pairs among the rows, each once; of more than ``most`` (0: no limit) those with the lowest hashes.

    The rows are read twice where there is a limit, so that no more than a number of each is in memory. Those beyond it,
    and those that are not meant to be pairs, are counted. After ``enough`` pairs (0: never) no further row is read.

    Reasons of rejects: ``bad_line``, ``no_query``, ``no_positive``, ``too_long``, ``unknown_intent``,
    ``unknown_passage``, ``duplicate_pair``.
    """
    highest = _highest(found(), rules, most) if most else None
    seen: set[str] = set()
    for place, row in found():
        run.count("rows_in")
        if isinstance(row, str):
            run.count(f"{row}/{rules.name}")
            continue
        reason = rules.reason(row)
        if reason or row is None:
            run.reject(short_id(rules.name, place), reason, _shown(place, row))
        elif highest is not None and int(rules.query_id(row), 16) > highest:
            run.count(f"not_sampled/{rules.name}")
        elif (pair := rules.pair(row))["query_id"] in seen:
            run.reject(short_id(rules.name, place), "duplicate_pair", _shown(place, row))
        else:
            seen.add(pair["query_id"])
            yield pair
            if len(seen) == enough:
                return


def _shown(place: str, row: Fields | None) -> str:
    return f"{place}: {row.get('query', '')}"[:200] if row else place


def _highest(found: Found, rules: Rules, most: int) -> int | None:
    """The highest id, as a number, of the ``most`` pairs that stay; None where all do. Ids are hashes already."""
    ids = (int(rules.query_id(row), 16) for _, row in found if isinstance(row, dict) and not rules.reason(row))
    distinct = np.unique(np.fromiter(ids, np.uint64))
    return int(distinct[most - 1]) if len(distinct) > most else None


def in_parts(pairs: Iterable[dict[str, Any]], rows_read: Callable[[], int] | None = None) -> Iterator[pa.Table]:
    """Tables of pairs, none of which is large: of so many pairs, or of those among so many rows.

    With ``rows_read``, which says how many were when a pair came, a row that is no pair any more changes one table.
    """
    number = rows_read or partial(next, count(1))
    for _, some in groupby(pairs, lambda pair: (number() - 1) // _PART_ROWS):
        yield PAIRS.table(list(some))
