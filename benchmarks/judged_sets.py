"""Judged retrieval sets with pairs to train on, and what a ranking of their passages scores."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipeline_tasks.evaluation.metrics import score

K = 10


@dataclass(frozen=True)
class Query:
    """A judged query, and the passage that it was written for, if known.

    An intent's queries count together as one of the intents.
    """

    text: str
    intent: str
    split: str
    judged: dict[str, int]
    written_for: str = ""

    @property
    def relevant(self) -> list[str]:
        """Passages of a grade above 0, as they were judged."""
        return [name for name, grade in self.judged.items() if grade > 0]


@dataclass(frozen=True)
class Pair:
    """A query to train on, the passage that it was written from, and one that was written as its answer, if any."""

    query: str
    passage_id: str
    positive: str = ""


@dataclass(frozen=True)
class JudgedSet:
    """A corpus by id, judged queries, and pairs on passages that no judged query was written from."""

    passages: dict[str, str]
    queries: list[Query]
    pairs: list[Pair]

    def scores(self, ranked: np.ndarray, split: str) -> np.ndarray:
        """NDCG@10, graded with linear gain, of each query of ``split``; ``ranked`` has positions for all queries."""
        ids = list(self.passages)
        rows = [i for i, query in enumerate(self.queries) if query.split == split]
        found = [[ids[p] for p in ranked[i, :K] if p >= 0] for i in rows]
        return score(found, [self.queries[i].judged for i in rows], [f"ndcg@{K}"])[f"ndcg@{K}"]

    def weights(self, split: str) -> np.ndarray:
        """What each query of ``split`` adds to the mean over intents; they add up to 1."""
        intents = [query.intent for query in self.queries if query.split == split]
        return np.array([1 / (len(set(intents)) * intents.count(intent)) for intent in intents])

    def mean(self, ranked: np.ndarray, split: str) -> float:
        """NDCG@10 of ``split``, mean over intents."""
        return float(self.scores(ranked, split) @ self.weights(split))

    def answers(self) -> dict[str, set[str]]:
        """The passages of each query that pairs have."""
        found: dict[str, set[str]] = {}
        for pair in self.pairs:
            found.setdefault(pair.query, set()).add(pair.passage_id)
        return found

    def intents(self, split: str) -> list[str]:
        """Of each query of ``split``."""
        return [query.intent for query in self.queries if query.split == split]


def smaller(data: JudgedSet, n_pairs: int, n_queries: int) -> JudgedSet:
    """A set of the same kind: the first pairs, the first queries of each split, and the passages that these name."""
    pairs = data.pairs[:n_pairs]
    queries = [q for split in ("dev", "test") for q in [q for q in data.queries if q.split == split][:n_queries]]
    named = {pair.passage_id for pair in pairs} | {name for query in queries for name in query.judged}
    return JudgedSet({name: text for name, text in data.passages.items() if name in named}, queries, pairs)


def disaster_guides(folder: Path) -> JudgedSet:
    """Six intents on US disaster guides; dev and test queries on other documents than the pairs."""
    judged: dict[str, dict[str, int]] = {}
    for split in ("dev", "test"):
        _read_qrels(folder / "qrels" / f"{split}.tsv", judged)
    rows = _lines(folder / "queries.jsonl")
    answered = [row for row in rows if any(grade > 0 for grade in judged.get(row["_id"], {}).values())]
    return JudgedSet(
        {row["_id"]: row["text"] for row in _lines(folder / "corpus.jsonl")},
        [Query(r["text"], r["intent"], r["split"], judged[r["_id"]], r["written_for"]) for r in answered],
        [Pair(row["query"], row["passage_id"], row["positive"]) for row in _lines(folder / "train.jsonl")],
    )


def multihoprag_snippets(folder: Path) -> JudgedSet:
    """Questions to news snippets, synthetic ones to train on; every tenth question is for development."""
    judged: dict[str, dict[str, int]] = {}
    _read_qrels(folder / "qrels.tsv", judged)
    rows = _lines(folder / "queries.jsonl")
    asked = [row for row in _lines(folder / "synthetic_queries.jsonl") if row["evidence_ids"]]
    return JudgedSet(
        {row["_id"]: row["text"] for row in _lines(folder / "corpus.jsonl")},
        [Query(r["text"], "qa", "test" if i % 10 else "dev", judged[r["_id"]]) for i, r in enumerate(rows)],
        [Pair(row["query"], row["evidence_ids"][0]) for row in asked],
    )


def judged_folder(folder: Path, intent: str) -> JudgedSet:
    """Any folder with a corpus, queries of one intent and judgements in a file; all queries are for tests.

    Passages without a word, of which Cranfield has two, are left out.
    """
    found: dict[str, dict[str, int]] = {}
    _read_qrels(folder / "qrels.tsv", found)
    passages = {row["_id"]: row["text"] for row in _lines(folder / "corpus.jsonl") if row["text"].strip()}
    judged = {query: {name: grade for name, grade in of.items() if name in passages} for query, of in found.items()}
    rows = [row for row in _lines(folder / "queries.jsonl") if judged.get(row["_id"])]
    return JudgedSet(passages, [Query(row["text"], intent, "test", judged[row["_id"]]) for row in rows], [])


def divided(folder: Path, intent: str) -> JudgedSet:
    """As :func:`judged_folder`, of ten queries five to train on, two for development and three for tests.

    A pair's passage is relevant to no query of the others.
    """
    data = judged_folder(folder, intent)
    asked = [
        replace(query, split="dev" if i % 10 < 2 else "test") for i, query in enumerate(data.queries) if i % 10 < 5
    ]
    held_out = {name for query in asked for name in query.relevant}
    rest = [query for i, query in enumerate(data.queries) if i % 10 >= 5]
    pairs = [Pair(query.text, name) for query in rest for name in query.relevant if name not in held_out]
    return JudgedSet(data.passages, asked, pairs)


SETS = {"disaster_guides": disaster_guides, "multihoprag_snippets": multihoprag_snippets}
"""Sets with pairs to train on."""
OTHERS = {"climate_fever_local": "factcheck", "cranfield": "qa"}
"""Sets without, each with the one intent of its queries."""


def needed(path: Path) -> Path:
    """A judged set, or a file of it.

    Raises:
        SystemExit: it is not there.
    """
    if not path.exists():
        raise SystemExit(
            f"there is no {path}: name the folder of the judged sets with --data, see benchmarks/README.md"
        )
    return path


def _lines(path: Path) -> Sequence[dict]:
    return [json.loads(line) for line in needed(path).read_text("utf-8").splitlines() if line]


def _read_qrels(path: Path, into: dict[str, dict[str, int]]) -> None:
    with needed(path).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            into.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
