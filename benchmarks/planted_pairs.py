"""Real queries with judged passages, some of them given a wrong positive: what a filter of positives is measured on."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judged_sets import needed

SETS = {"multihoprag_snippets": ("qa", 0.7), "climate_fever_local": ("factcheck", 0.3)}
"""Folder -> the intent of its queries, and the share of the pairs that it gives."""

NOISE = 0.2


@dataclass(frozen=True)
class Planted:
    """Pairs with a known truth.

    Attributes:
        passage_ids, passages: the corpus.
        queries, intents: one of each per pair.
        right: positions of the passages that are judged to answer each query.
        given: position of the positive that each query came with; for one in five it is a wrong one.
        wrong: which those are.
    """

    passage_ids: list[str]
    passages: list[str]
    queries: list[str]
    intents: list[str]
    right: list[set[int]]
    given: np.ndarray
    wrong: np.ndarray


def plant(data: Path, n_pairs: int) -> Planted:
    """``n_pairs`` pairs of the real sets in ``data``, a fifth with a wrong positive: half any, half a similar passage.

    A set's corpus is the passages judged for the queries taken, and a quarter as many others.
    """
    chance = np.random.default_rng(n_pairs)
    ids: list[str] = []
    texts: list[str] = []
    queries: list[tuple[str, str, set[int]]] = []
    similar_from: list[tuple[int, int]] = []
    for name, (intent, share) in SETS.items():
        corpus = _corpus(data / name)
        asked = _judged_queries(data / name, set(corpus))
        chosen = [asked[i] for i in sorted(chance.choice(len(asked), round(n_pairs * share), replace=False))]
        judged = list(dict.fromkeys(passage for _, right, near in chosen for passage in (*right, *near)))
        others = [passage for passage in corpus if passage not in set(judged)]
        extra = chance.choice(len(others), min(len(others), len(judged) // 4), replace=False)
        kept = [*judged, *(others[i] for i in sorted(extra))]
        place = {passage: len(ids) + i for i, passage in enumerate(kept)}
        similar_from += [(len(ids), len(ids) + len(kept))] * len(chosen)
        ids += [f"{name}/{passage}" for passage in kept]
        texts += [corpus[passage] for passage in kept]
        queries += [(text, intent, {place[passage] for passage in right}) for text, right, _ in chosen]
    right = [answers for _, _, answers in queries]
    given = np.array([min(answers) for answers in right])
    wrong = np.zeros(len(queries), bool)
    wrong[chance.choice(len(queries), round(len(queries) * NOISE), replace=False)] = True
    asked, intents = [text for text, _, _ in queries], [intent for _, intent, _ in queries]
    _mislead(given, wrong, asked, texts, right, similar_from, chance)
    return Planted(ids, texts, asked, intents, right, given, wrong)


def _mislead(
    given: np.ndarray,
    wrong: np.ndarray,
    queries: list[str],
    texts: list[str],
    right: list[set[int]],
    of_set: list[tuple[int, int]],
    chance: np.random.Generator,
) -> None:
    """Give the queries marked ``wrong`` another passage of their set: by turns any, and one of the BM25 best ten."""
    from pipeline_tasks.retrieval.bm25 import Bm25

    marked = np.flatnonzero(wrong)
    best = Bm25(texts).search([queries[row] for row in marked], 30).indices
    for turn, row in enumerate(marked):
        first, last = of_set[row]
        near = [i for i in best[turn].tolist() if first <= i < last and i not in right[row]][:10]
        far = [i for i in chance.integers(first, last, 8).tolist() if i not in right[row]]
        given[row] = chance.choice(near) if turn % 2 and near else far[0]


def _corpus(folder: Path) -> dict[str, str]:
    """Passages by id; of equal texts the first."""
    first: dict[str, str] = {}
    for row in _rows(folder / "corpus.jsonl"):
        first.setdefault(row["text"], row["_id"])
    return {name: text for text, name in first.items()}


def _judged_queries(folder: Path, known: set[str]) -> list[tuple[str, list[str], list[str]]]:
    """Query, the passages that answer it, and those judged not to."""
    synthetic = folder / "synthetic_queries.jsonl"
    if synthetic.exists():
        rows = [(row["query"], row["evidence_ids"], []) for row in _rows(synthetic)]
    else:
        texts = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
        judged: dict[str, tuple[list[str], list[str]]] = {name: ([], []) for name in texts}
        with (folder / "qrels.tsv").open(newline="") as file:
            for line in csv.DictReader(file, delimiter="\t"):
                judged[line["query-id"]][int(line["score"]) == 0].append(line["corpus-id"])
        rows = [(texts[name], right, near) for name, (right, near) in judged.items()]
    return [
        (query, right, [passage for passage in near if passage in known])
        for query, right, near in rows
        if right and known.issuperset(right)
    ]


def _rows(path: Path) -> list[dict]:
    with needed(path).open() as file:
        return [json.loads(line) for line in file]
