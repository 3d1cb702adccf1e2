"""Judged sets whose queries are asked with instructions by rules: what they are, and what a model scores on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from judged_sets import OTHERS, JudgedSet, Query, disaster_guides, judged_folder, multihoprag_snippets
from planted_tuples import Part, Words, divided

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.evaluation.altered_instructions import RULES, Altered, alter
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.p_mrr import p_mrr
from pipeline_tasks.evaluation.statistics import Difference, compare
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.retrieval.search import top_k

DEEPEST = 1000
SETS: dict[str, Callable[[Path], JudgedSet]] = {
    "multihoprag_snippets": multihoprag_snippets,
    **{name: partial(judged_folder, intent=intent) for name, intent in OTHERS.items()},
    "disaster_guides": disaster_guides,
}
P_MRR, NDCG = "p_mrr", "ndcg@10"


@dataclass(frozen=True)
class Instructed:
    """A judged set in parts, its passages cut.

    Attributes:
        data: passages, of which rules read the words.
        parts: its queries with two relevant passages or more.
        searched: the passages that are searched for the part that is scored.
    """

    data: JudgedSet
    parts: Mapping[Part, list[Query]]
    searched: Mapping[str, str]

    @cached_property
    def words(self) -> Words:
        """Those of all passages."""
        return Words(self.data)

    def altered(self, query: Query) -> list[Altered]:
        """The instructions that the query is scored with."""
        return list(alter(query.text, query.judged, self.words.of, self.words.rarity))


@dataclass(frozen=True)
class Values:
    """What a model scores.

    Shapes: every array [q]; of a rule NaN where it has no instruction for a query.

    Attributes:
        plain: NDCG@10 without instructions.
        of_rule: p-MRR.
    """

    plain: np.ndarray
    of_rule: dict[str, np.ndarray]

    @property
    def p_mrr(self) -> np.ndarray:
        """Of each query with instructions the mean over these, [n]."""
        of_all = np.stack(list(self.of_rule.values()))
        return np.nanmean(of_all[:, ~np.isnan(of_all).all(axis=0)], axis=0)

    @property
    def n_instructions(self) -> int:
        """How many there are."""
        return sum(int((~np.isnan(of)).sum()) for of in self.of_rule.values())

    def summary(self) -> dict[str, float]:
        """Means over queries."""
        rules = {f"{P_MRR}/{rule}": float(np.nanmean(of)) for rule, of in self.of_rule.items()}
        return {P_MRR: float(self.p_mrr.mean()), **rules, NDCG: float(self.plain.mean())}

    def save(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partly = path.with_suffix(".part")
        partly.write_text(json.dumps({"plain": self.plain.tolist()} | {k: v.tolist() for k, v in self.of_rule.items()}))
        partly.rename(path)

    @classmethod
    def read(cls, path: Path) -> Values:
        """What was saved."""
        found = {name: np.array(values) for name, values in json.loads(path.read_text("utf-8")).items()}
        return cls(found.pop("plain"), found)

    @classmethod
    def joined(cls, of_sets: Sequence[Values]) -> Values:
        """Those of several sets one after the other."""
        rules = {rule: np.concatenate([one.of_rule[rule] for one in of_sets]) for rule in RULES}
        return cls(np.concatenate([one.plain for one in of_sets]), rules)

    @classmethod
    def mean(cls, of_seeds: Sequence[Values]) -> Values:
        """Query by query the mean over seeds."""
        rules = {rule: np.mean([one.of_rule[rule] for one in of_seeds], axis=0) for rule in RULES}
        return cls(np.mean([one.plain for one in of_seeds], axis=0), rules)


def instructed(name: str, folder: Path, n_words: int, part: Part, n_queries: int, n_passages: int) -> Instructed:
    """A set of which so many queries of ``part`` are scored, over the passages judged for them and others.

    Passages are cut after ``n_words`` words, before rules read them; so what a model cuts is none of it.
    """
    whole = SETS[name](folder)
    cut = {passage: " ".join(text.split()[:n_words]) for passage, text in whole.passages.items()}
    parts = divided(whole)
    parts[part] = parts[part][:n_queries]
    judged = dict.fromkeys(passage for query in parts[part] for passage in query.judged)
    others = sorted(cut.keys() - judged.keys(), key=lambda passage: unit_hash("searched", passage))
    searched = [*judged, *others[: max(0, n_passages - len(judged))]]
    return Instructed(replace(whole, passages=cut), parts, {passage: cut[passage] for passage in searched})


def values_of(model: Path, given: Instructed, part: Part) -> Values:
    """What a model scores on the queries of a part; a text that is asked for twice is encoded once."""
    queries, ids = given.parts[part], list(given.searched)
    encoder = load_encoder(model, settings().cache, settings().threads, devices())
    passages = encoder.encode_passages(list(given.searched.values()))
    made = [(place, one) for place, query in enumerate(queries) for one in given.altered(query)]
    asked: dict[tuple[str, str | None], int] = {}
    for place, one in made:
        for instruction in (None, one.instruction, one.changed):
            asked.setdefault((queries[place].text, instruction), len(asked))
    for query in queries:
        asked.setdefault((query.text, None), len(asked))
    texts, instructions = zip(*asked, strict=True)
    places = top_k(encoder.encode_queries(texts, None, instructions), passages, min(DEEPEST, len(ids)))[0]
    ranked = [[ids[place] for place in row] for row in places]

    def rankings(kind: str) -> list[list[str]]:
        return [ranked[asked[queries[place].text, getattr(one, kind)]] for place, one in made]

    grades = [one.grades for _, one in made], [one.changed_grades for _, one in made]
    moved = p_mrr(rankings("instruction"), rankings("changed"), *grades)
    of_rule = {rule: np.full(len(queries), np.nan) for rule in RULES}
    for (place, one), value in zip(made, moved, strict=True):
        of_rule[one.rule][place] = value
    plain = score([ranked[asked[q.text, None]] for q in queries], [q.judged for q in queries], [NDCG])[NDCG]
    return Values(np.asarray(plain), of_rule)


def against(trained: Values, start: Values) -> dict[str, Difference]:
    """p-MRR and plain NDCG@10 of one model, or the mean of several seeds', against those of the start, by query."""
    pairs = {P_MRR: (trained.p_mrr, start.p_mrr), NDCG: (trained.plain, start.plain)}
    return {name: compare(*pair, ["any"] * len(pair[0])) for name, pair in pairs.items()}
