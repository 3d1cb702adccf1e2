"""Labelled queries, passages and rankings by chance, in parts of odd sizes; and the negatives by a plain loop."""

from __future__ import annotations

import random
from itertools import pairwise

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from tests.stores import put, rows

MODELS = ("one", "two")


def plant(store: LocalStore, n_queries: int, n_passages: int, parts: int = 4, n_ranked: int = 20) -> None:
    """Queries share texts, passages share texts, and a query's positive may be outside its ranking."""
    chance = random.Random(n_queries)
    passages = [_passage(chance, i, n_passages) for i in range(n_passages)]
    pairs = [_pair(chance, i, n_queries, chance.choice(passages)) for i in range(n_queries)]
    everything = [p["passage_id"] for p in passages] + [p["positive_id"] for p in pairs]
    put(store, PASSAGES, *_cut(chance, passages, parts))
    put(store, PAIRS, *_cut(chance, pairs, parts), dataset="mtp")
    for model in MODELS:
        ranked = [_ranking(chance, pair, chance.sample(everything, n_ranked)) for pair in pairs]
        if model == "two":
            chance.shuffle(ranked)
        put(store, RANKINGS, *_cut(chance, ranked, parts), dataset=f"rankings/{model}")
    labels = [_label(chance, pair, chance.choice(everything)) for pair in pairs if chance.random() < 0.8]
    put(store, LABELLED, *_cut(chance, labels, parts))


def _cut(chance: random.Random, rows: list[dict], n: int) -> list[list[dict]]:
    edges = [0, *sorted(chance.sample(range(1, len(rows)), n - 1)), len(rows)]
    return [rows[first:past] for first, past in pairwise(edges)]


def _passage(chance: random.Random, i: int, n: int) -> dict:
    split = chance.choices(["train", "dev", "test"], [6, 2, 2])[0]
    return {"passage_id": f"p{i}", "doc_id": f"d{i}", "text": f"text {chance.randrange(n // 2)}", "split": split}


def _pair(chance: random.Random, i: int, n: int, source: dict) -> dict:
    return {
        "query_id": f"q{i}", "passage_id": source["passage_id"], "doc_id": source["doc_id"], "origin": "dm",
        "intent": chance.choice(["qa", "sts"]), "query": f"about {chance.randrange(n * 2 // 3)}?",
        "positive_id": f"g{i}", "positive": f"text {chance.randrange(n)}", "passage": source["text"],
        "split": source["split"],
    }  # fmt: skip


def _ranking(chance: random.Random, pair: dict, names: list[str]) -> dict:
    if pair["positive_id"] not in names and chance.random() < 0.6:
        names[chance.randrange(5)] = pair["positive_id"]
    scores = sorted((round(chance.uniform(-0.2, 0.95), 3) for _ in names), reverse=True)
    known = chance.uniform(0.2, 0.9) if chance.random() < 0.8 else None
    return {"query_id": pair["query_id"], "passage_ids": names, "scores": scores, "positive_score": known}


def _label(chance: random.Random, pair: dict, other: str) -> dict:
    votes = [{"model": m, "positive_score": chance.choice([None, 0.5, 0.7, 0.9])} for m in MODELS]
    return {
        "query_id": pair["query_id"], "intent": pair["intent"], "query": pair["query"], "positive": "", "votes": votes,
        "positive_id": pair["positive_id"] if chance.random() < 0.6 else other, "best_model": chance.choice(MODELS),
        "source_passage_id": pair["passage_id"], "split": chance.choice(["train", "train", "dev"]),
    }  # fmt: skip


def plain(store: LocalStore, alpha: float, most: int) -> dict[str, list[str]]:
    """Negatives by query, of those that have any: every rule in turn, all rows in dictionaries."""
    pairs, labels = rows(store, "mtp"), rows(store, "labelled")
    text, split = {}, {}
    for row in pairs[::-1]:
        text[row["positive_id"]], split[row["positive_id"]] = row["positive"], row["split"]
    for row in rows(store, "passages")[::-1]:
        text[row["passage_id"]], split[row["passage_id"]] = row["text"], row["split"]
    answers: dict[str, set[str]] = {}
    for row in pairs:
        answers.setdefault(row["query"], set()).update((row["positive_id"], row["passage_id"]))
    for row in labels:
        answers[row["query"]].update((row["positive_id"], row["source_passage_id"]))
    written = {row["query_id"]: row["positive_id"] for row in pairs}
    ranked = {m: {row["query_id"]: row for row in rows(store, f"rankings/{m}")} for m in MODELS}
    found = {}
    for row in labels:
        ranking, positive = ranked[row["best_model"]][row["query_id"]], row["positive_id"]
        of_rank = dict(zip(ranking["passage_ids"], ranking["scores"], strict=True))
        vote = next(v["positive_score"] for v in row["votes"] if v["model"] == row["best_model"])
        own = ranking["positive_score"] if written[row["query_id"]] == positive else None
        score = next((s for s in (vote, own, of_rank.get(positive)) if s is not None), None)
        if score is None:
            continue
        limit = alpha * score if score > 0 else (2 - alpha) * score
        told = {text[answer] for answer in answers[row["query"]] | {positive} if answer in text}
        may = [
            name for name, cosine in of_rank.items()
            if cosine < limit and name not in answers[row["query"]] and text[name] not in told
            and split[name] == row["split"]
        ]  # fmt: skip
        if may:
            found[row["query_id"]] = may[:most]
    return found
