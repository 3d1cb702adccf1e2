"""The trainings that ``learning.py`` compares, from rows to rankings; whatever was made lies in a folder and is kept.

A training takes minutes, a table of them hours: a run that was stopped goes on with the first one that is not there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from judged_sets import JudgedSet

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.rank_lists import interval_ends, sample
from pipeline_tasks.encoders.layout import layout_of_folder
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval import bm25
from pipeline_tasks.retrieval.encoders import load_encoder, open_encoder
from pipeline_tasks.retrieval.fusion import fuse, fused_score
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.average_models import average
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.export import export
from pipeline_tasks.training.params import Precision, TrainParams
from pipeline_tasks.training.trainer import train

DEPTH, N_NEGATIVES, ALPHA, RANKS = 200, 9, 0.95, 10
SKIPPED, INTERVALS = 3, 3
LENGTHS = {"max_query_length": 64, "max_passage_length": 192}
FUSION = "rrf"
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Stage:
    """What one training learns from.

    Attributes:
        written: generated positives beside the source passages.
        restated: these as queries, too.
        spread: negatives of three intervals of the keyword ranking, behind its first ranks.
        mined: hard negatives; such a training goes on from the better of those without.
        labels: the loss on the labels counts.
        taught: what a teacher makes of each row counts.
        averages: stages whose models' mean it is, in place of a training.
    """

    written: bool = False
    restated: bool = False
    spread: bool = False
    mined: bool = False
    labels: bool = True
    taught: bool = False
    averages: tuple[str, ...] = ()


STAGES = {
    "pairs": Stage(),
    "positives": Stage(written=True),
    "views": Stage(written=True, restated=True),
    "averaged": Stage(averages=("pairs", "views")),
    "spread": Stage(spread=True),
    "spread averaged": Stage(averages=("spread", "views")),
    "negatives": Stage(mined=True),
    "distilled": Stage(mined=True, taught=True),
    "taught alone": Stage(mined=True, taught=True, labels=False),
}


@dataclass(frozen=True)
class Recipe:
    """What all trainings of a table have in common.

    Attributes:
        size: of the model.
        precision: of training and of the trained model's vectors.
        teacher: ``rrf``, the ranks of BM25 and all reference models, or one of these models, its cosines.
        given: hyperparameters, by name, in place of the size's.
    """

    size: str
    precision: Precision
    teacher: str
    given: Mapping[str, Any]

    @property
    def bf16(self) -> bool:
        """Whether arithmetic is."""
        return self.precision == "bf16"

    def params(self, stage: Stage, seed: int) -> TrainParams:
        """Those of the size, with texts cut as by the plain script; a teacher's sums of reciprocal ranks are small."""
        objective: Any = "info_nce"
        if stage.taught:
            unit = 0.005 if self.teacher == FUSION else None
            hard = "info_nce" if stage.labels else None
            objective = {"name": "kl_distillation", "hard": hard, "teacher_temperature": unit}
        chosen = {"objective": objective, "in_batch": True, "seed": seed, "evals_per_epoch": 1} | LENGTHS
        return TrainParams(size=self.size, device="cpu", precision=self.precision, **(chosen | dict(self.given)))


def kept(path: Path, make: Callable[[], Arrays]) -> dict[str, np.ndarray]:
    """The arrays in ``path``; where there are none, what ``make`` gives, which then lies there."""
    if not path.is_file():
        made = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, **made)
        part.replace(path)
    with np.load(path) as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class References:
    """What systems that were not trained make of the judged queries and of the pairs.

    Attributes:
        judged: rankings [q, depth] of the corpus by system, fusions included.
        pairs: rankings [pairs, depth] by BM25 and by each reference model.
        vectors: of each reference model: ``judged``, ``pairs``, ``passages``.
    """

    judged: dict[str, np.ndarray]
    pairs: dict[str, np.ndarray]
    vectors: dict[str, dict[str, np.ndarray]]


def references(data: JudgedSet, models: Sequence[str], place: Path) -> References:
    """Rank everything with BM25, the models and their fusion; vectors are kept in ``place``."""
    texts = list(data.passages.values())
    asked = {"judged": [query.text for query in data.queries], "pairs": [pair.query for pair in data.pairs]}
    depth = min(DEPTH, len(texts))
    found = {side: {"bm25": bm25.top_k(queries, texts, depth)[0]} for side, queries in asked.items()}
    vectors = {}
    for name in models:
        vectors[name] = kept(place / f"{name}.npz", partial(_vectors, name, asked, texts))
        for side in asked:
            found[side][name] = top_k(vectors[name][side], vectors[name]["passages"], depth)[0]
    fused = {f"{FUSION}({','.join(found['judged'])})": fuse(list(found["judged"].values()), depth)[0]}
    return References(found["judged"] | fused, found["pairs"], vectors)


def _vectors(name: str, asked: Mapping[str, Sequence[str]], passages: Sequence[str]) -> Arrays:
    encoder = open_encoder(name)
    found = {side: encoder.encode_queries(list(queries)) for side, queries in asked.items()}
    return found | {"passages": encoder.encode_passages(list(passages))}


def negatives(data: JudgedSet, found: References) -> list[list[str]]:
    """Per pair up to nine passages of the training documents, the first reference model's best below the source."""
    ids = list(data.passages)
    places = {name: place for place, name in enumerate(ids)}
    answers: dict[str, set[str]] = {}
    for pair in data.pairs:
        answers.setdefault(pair.query, set()).add(pair.passage_id)
    trained_on = {pair.passage_id for pair in data.pairs}
    name, vectors = next(iter(found.vectors.items()))
    mined = []
    for pair, query, ranked in zip(data.pairs, vectors["pairs"], found.pairs[name], strict=True):
        limit = ALPHA * float(query @ vectors["passages"][places[pair.passage_id]])
        close = [ids[p] for p in ranked if query @ vectors["passages"][p] < limit]
        mined.append([i for i in close if i in trained_on and i not in answers[pair.query]][:N_NEGATIVES])
    return mined


def spread(data: JudgedSet, found: References) -> list[list[str]]:
    """Per pair a passage of each of three intervals of the ranking by BM25, as ``lead=own`` draws them."""
    ids, trained_on = list(data.passages), {pair.passage_id for pair in data.pairs}
    answers: dict[str, set[str]] = {}
    for pair in data.pairs:
        answers.setdefault(pair.query, set()).add(pair.passage_id)
    drawn = []
    for pair, ranked in zip(data.pairs, found.pairs["bm25"], strict=True):
        others = [ids[p] for p in ranked if p >= 0 and ids[p] in trained_on and ids[p] not in answers[pair.query]]
        behind = others[SKIPPED:]
        ends = interval_ends(np.arange(len(behind), 0, -1), INTERVALS, "doubling", "rank", SKIPPED)
        drawn.append([behind[rank] for rank in sample(pair.query, ends, 1)[0]])
    return drawn


def taught(data: JudgedSet, mined: list[list[str]], found: References, teacher: str) -> list[list[float]]:
    """A teacher's score of each pair's source and negatives."""
    places = {name: place for place, name in enumerate(data.passages)}
    wanted = [[places[i] for i in (pair.passage_id, *ids)] for pair, ids in zip(data.pairs, mined, strict=True)]
    if teacher != FUSION:
        vectors = found.vectors[teacher]
        pairs = zip(vectors["pairs"], wanted, strict=True)
        return [(vectors["passages"][row] @ query).tolist() for query, row in pairs]
    rankings = list(found.pairs.values())
    widest = max(map(len, wanted))
    columns = [np.array([row[n] if n < len(row) else -1 for row in wanted]) for n in range(widest)]
    scores = np.stack([fused_score(rankings, column) for column in columns], axis=1)
    return [row[: len(own)].tolist() for row, own in zip(scores, wanted, strict=True)]


def training_set(data: JudgedSet, stage: Stage, found: References, teacher: str) -> Examples:
    """The rows of a stage."""
    rows = [(pair.query, data.passages[pair.passage_id]) for pair in data.pairs]
    if stage.written:
        rows += [(pair.query, pair.positive) for pair in data.pairs if pair.positive]
    if stage.restated:
        rows += [(pair.positive, data.passages[pair.passage_id]) for pair in data.pairs if pair.positive]
    queries, positives = zip(*rows, strict=True)
    if stage.spread:
        return Examples.of(queries, positives, [[data.passages[i] for i in ids] for ids in spread(data, found)])
    if not stage.mined:
        return Examples.of(queries, positives)
    mined = negatives(data, found)
    targets = taught(data, mined, found, teacher) if stage.taught else None
    return Examples.of(queries, positives, [[data.passages[i] for i in ids] for ids in mined], targets=targets)


def dev_set(data: JudgedSet) -> Examples:
    """The development queries, each with its best passage, over all passages judged for any of them."""
    queries = [query for query in data.queries if query.split == "dev"]
    best = [max(query.judged, key=query.judged.__getitem__) for query in queries]
    judged = {data.passages[name] for query in queries for name in query.judged}
    return Examples.of([q.text for q in queries], [data.passages[name] for name in best], others=sorted(judged))


def ranked(data: JudgedSet, encode: Callable[[Sequence[str], bool], np.ndarray]) -> Arrays:
    """The first ten of the corpus for all judged queries, as ``kept`` takes them."""
    queries = encode([query.text for query in data.queries], True)
    return {"ranked": top_k(queries, encode(list(data.passages.values()), False), RANKS)[0]}


@dataclass(frozen=True)
class Bench:
    """One set and how trainings on it are done; every method gives rankings [q, 10] of all judged queries.

    Attributes:
        place: folder in which models and rankings are kept, under names that stand for their settings.
    """

    data: JudgedSet
    found: References
    recipe: Recipe
    place: Path

    @property
    def start(self) -> Path:
        """The size's backbone."""
        return folder(backbone(self.recipe.size).name)

    def untouched(self) -> np.ndarray:
        """By the start as it came."""
        return kept(self._file("untouched"), lambda: self._ranked_by(self.start))["ranked"]

    def plain(self, seed: int) -> np.ndarray:
        """By the model of the plain script."""
        return kept(self._file("plain", seed), lambda: self._plain(seed))["ranked"]

    def stage(self, name: str, seed: int, before: str = "") -> np.ndarray:
        """By the model of a stage, trained from that of the stage ``before``, which is one without negatives."""
        return kept(self._folder(name, seed, before) / "ranked.npz", lambda: self._stage(name, seed, before))["ranked"]

    def _stage(self, name: str, seed: int, before: str) -> Arrays:
        if STAGES[name].averages:
            return self._average(name, seed)
        start = self._folder(before, seed, "") if before else self.start
        rows = training_set(self.data, STAGES[name], self.found, self.recipe.teacher)
        params, out = self.recipe.params(STAGES[name], seed), self._folder(name, seed, before)
        with tempfile.TemporaryDirectory() as work:
            result = train(rows, dev_set(self.data), start, params, Path(work), threads=settings().threads)
        layout = replace(layout_of_folder(start), max_length=LENGTHS["max_passage_length"])
        export(result.encoder, out, card={"name": name}, layout=layout)
        return self._ranked_by(out)

    def _average(self, name: str, seed: int) -> Arrays:
        members, out = STAGES[name].averages, self._folder(name, seed, "")
        for member in members:
            self.stage(member, seed)
        encoder = average({member: self._folder(member, seed, "") for member in members}, [1.0] * len(members))
        export(encoder, out, card={"name": name}, layout=encoder.layout)
        return self._ranked_by(out)

    def _plain(self, seed: int) -> Arrays:
        from plain_training import train_plain, vectors

        pairs = [(pair.query, self.data.passages[pair.passage_id]) for pair in self.data.pairs]
        model = train_plain(self.start, pairs, seed, settings().threads, self.recipe.bf16)
        return ranked(self.data, lambda texts, _: vectors(*model, texts, self.recipe.bf16).numpy())

    def _ranked_by(self, model: Path) -> Arrays:
        precision: Any = "bfloat16" if self.recipe.bf16 else "float32"
        encoder = load_encoder(model, model.parent, settings().threads, precision=precision)
        encode = {True: encoder.encode_queries, False: encoder.encode_passages}
        return ranked(self.data, lambda texts, asked: encode[asked](list(texts)))

    def _file(self, *told: Any) -> Path:
        name = "-".join(map(str, told))
        return self.place / f"{name}-{short_id(self.recipe.size, self.recipe.precision, settings().threads)}.npz"

    def _folder(self, name: str, seed: int, before: str) -> Path:
        stage = STAGES[name]
        teacher = [self.recipe.teacher, list(self.found.vectors)] if stage.taught else []
        told = [before, teacher, self.recipe.params(stage, seed).identity(), settings().threads]
        return self.place / f"{name.replace(' ', '-')}-{seed}-{short_id(*told)}"
