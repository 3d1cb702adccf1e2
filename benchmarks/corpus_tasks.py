"""A corpus with queries to train on, queries to choose settings by, and judged queries that neither has seen."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from judged_sets import SETS, JudgedSet, Pair

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.synthesis.extracted import SOURCES, extract


@dataclass(frozen=True)
class Task:
    """One corpus.

    Attributes:
        data: passages and judged queries.
        train: queries to train on, with the passage that each is from.
        dev: queries that choose a setting.
        altered: way -> the judged queries without their keywords.
    """

    data: JudgedSet
    train: list[Pair]
    dev: list[Pair]
    altered: dict[str, list[str]] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """Of all passages."""
        return list(self.data.passages.values())

    @property
    def places(self) -> dict[str, int]:
        """Passage id -> place."""
        return {name: place for place, name in enumerate(self.data.passages)}


def extracted_pairs(path: Path) -> list[Pair]:
    """Queries in the passages' own words: no LLM has seen this corpus."""
    begun: set[str] = set()
    found = []
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        begins = row["document"] not in begun
        begun.add(row["document"])
        own = extract(row["_id"], row["title"], row["text"], begins=begins, sources=SOURCES, most=2)
        found += [Pair(one.query, row["_id"]) for one in own]
    return found


def task_of(name: str, path: Path, options: argparse.Namespace) -> Task:
    """A set, its synthetic queries in the order of their hashes: first development, then training."""
    data = SETS[name](path)
    pairs = extracted_pairs(path / "corpus.jsonl") if name == "disaster_guides" else data.pairs
    pairs = sorted(pairs, key=lambda pair: unit_hash("adapt_to_corpus", pair.query, pair.passage_id))
    test = [query for query in data.queries if query.split == "test"][: options.test]
    dev, train = pairs[: options.dev], pairs[options.dev :][: options.train]
    named = [name for query in test for name in query.judged] + [pair.passage_id for pair in (*dev, *train)]
    kept = set(list(dict.fromkeys([*named, *data.passages]))[: options.passages])
    if not kept.issuperset(named):
        raise SystemExit(f"--passages {options.passages} are fewer than the {len(set(named))} that queries are about")
    return Task(replace(data, passages={i: t for i, t in data.passages.items() if i in kept}, queries=test), train, dev)
