"""The trainings that ``learning.py`` compares, from rows to rankings; whatever was made lies in a folder and is kept.

A training takes minutes to hours, a table of them days: a run that was stopped goes on with the first training that is
not there, from its last checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from judged_sets import JudgedSet
from learning_rows import (
    ALPHA,
    FUSION,
    LENGTHS,
    RANKS,
    Arrays,
    References,
    dev_set,
    load_or_make,
    negatives,
    positives_by,
    spread,
    taught,
)

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.agreement import Strategy
from pipeline_tasks.encoders.devices import device_kind, devices
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.start import judging_layers
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.average_models import average
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.model.reset import reset_top_layers
from pipeline_tasks.training.params import Precision, TrainParams

START = "the start"
N_NEGATIVES = 9
RISING = (0.65, 0.75, 0.85)


@dataclass(frozen=True)
class Stage:
    """What one training learns from.

    Attributes:
        written: generated positives beside the source passages.
        restated: these as queries, too.
        keeps: how the models' agreement chooses the positives; pairs without one are left out.
        spread: negatives of three intervals of the keyword ranking, behind its first ranks.
        mined: hard negatives; such a training goes on from the better of those without.
        alphas: their difficulties, one training each, which goes on from the one before.
        labels: the loss on the labels counts.
        taught: what a teacher makes of each row counts.
        averages: stages whose models' mean it is, in place of a training; :data:`START` for the untrained model.
    """

    written: bool = False
    restated: bool = False
    keeps: Strategy = "none"
    spread: bool = False
    mined: bool = False
    alphas: tuple[float, ...] = (ALPHA,)
    labels: bool = True
    taught: bool = False
    averages: tuple[str, ...] = ()


STAGES = {
    "pairs": Stage(),
    "positives": Stage(written=True),
    "views": Stage(written=True, restated=True),
    "agreed": Stage(keeps="mutual"),
    "consistent": Stage(keeps="consistency"),
    "averaged": Stage(averages=("pairs", "views")),
    "spread": Stage(spread=True),
    "spread averaged": Stage(averages=("spread", "views")),
    "negatives": Stage(mined=True),
    "rising": Stage(mined=True, alphas=RISING),
    "level": Stage(mined=True, alphas=RISING[-1:] * len(RISING)),
    "negatives and start": Stage(mined=True, averages=("negatives", START)),
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
        given_mined: of stages with mined negatives, in place of these; such a stage goes on from a trained model.
        n_negatives: that are mined for a pair; the paper's nine are ten passages to encode for a query.
    """

    size: str
    precision: Precision
    teacher: str
    given: Mapping[str, Any]
    given_mined: Mapping[str, Any]
    n_negatives: int = N_NEGATIVES

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
        chosen["checkpoint_every_steps"] = 10
        given = {**self.given, **(self.given_mined if stage.mined else {})}
        return TrainParams(size=self.size, precision=self.precision, **(chosen | given))


def training_set(data: JudgedSet, stage: Stage, found: References, recipe: Recipe, alpha: float = ALPHA) -> Examples:
    """The rows of a stage, of one of its difficulties."""
    chosen = positives_by(data, found, stage.keeps)
    rows = [(pair.query, data.passages[name]) for pair, name in zip(data.pairs, chosen, strict=True) if name]
    if stage.written:
        rows += [(pair.query, pair.positive) for pair in data.pairs if pair.positive]
    if stage.restated:
        rows += [(pair.positive, data.passages[pair.passage_id]) for pair in data.pairs if pair.positive]
    queries, positives = zip(*rows, strict=True)
    if stage.spread:
        return Examples.of(queries, positives, [[data.passages[i] for i in ids] for ids in spread(data, found)])
    if not stage.mined:
        return Examples.of(queries, positives)
    mined = negatives(data, found, recipe.n_negatives, alpha)
    targets = taught(data, mined, found, recipe.teacher) if stage.taught else None
    return Examples.of(queries, positives, [[data.passages[i] for i in ids] for ids in mined], targets=targets)


def ranked(data: JudgedSet, encode: Callable[[Sequence[str], bool], np.ndarray]) -> Arrays:
    """The first ten of the corpus for all judged queries, as ``load_or_make`` takes them."""
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

    @cached_property
    def start(self) -> Path:
        """The size's backbone, as ``pretrain`` starts with it."""
        name, n_layers = backbone(self.recipe.size).name, self.reset_layers
        return reset_top_layers(folder(name), self.place / "start", n_layers) if n_layers else folder(name)

    @property
    def reset_layers(self) -> int:
        """The top layers of the start that begin as identity."""
        return judging_layers(backbone(self.recipe.size).name)

    def untouched(self) -> np.ndarray:
        """By the start as it came."""
        return load_or_make(self._file("untouched"), lambda: self._ranked_by(self.start))["ranked"]

    def plain(self, seed: int) -> np.ndarray:
        """By the model of the plain script."""
        return load_or_make(self._file("plain", seed), lambda: self._plain(seed))["ranked"]

    def stage(self, name: str, seed: int, before: str = "") -> np.ndarray:
        """By the model of a stage, trained from that of the stage ``before``, which is one without negatives."""
        path = self.of_stage(name, seed, before) / "ranked.npz"
        return load_or_make(path, lambda: self._stage(name, seed, before))["ranked"]

    def mean(self, models: Sequence[Path]) -> np.ndarray:
        """By the mean of the weights of these models, of whichever stages and seeds."""
        out = self.of_mean(models)
        by_name = {model.name: model for model in models}
        return load_or_make(out / "ranked.npz", lambda: self._average(by_name, out))["ranked"]

    def elsewhere(self, other: str, data: JudgedSet, model: Path | None = None) -> np.ndarray:
        """The passages of another set, of that name, ranked for its queries by a model, else by the start."""
        path = model / f"ranked-{other}.npz" if model else self._file("untouched", other)
        return load_or_make(path, lambda: self._ranked_by(model or self.start, data))["ranked"]

    def of_stage(self, name: str, seed: int, before: str = "") -> Path:
        """Folder of a stage's model, named by all that it is made of, other models among it."""
        stage, models = STAGES[name], list(self.found.vectors)
        read = [self.recipe.teacher, models] if stage.taught else models[:1] if stage.mined else []
        if stage.keeps != "none":
            read = [stage.keeps, *models]
        if stage.alphas != (ALPHA,):
            read = [*read, *stage.alphas]
        if stage.mined and self.recipe.n_negatives != N_NEGATIVES:
            read = [*read, self.recipe.n_negatives]
        params = self.recipe.params(stage, seed).identity()
        begun = self.of_stage(before, seed).name if before else ""
        trained = [member for member in stage.averages if member != START]
        members = [self.of_stage(member, seed, before).name for member in trained]
        key = [begun, read, params, self.reset_layers, settings().threads, *members]
        return self.place / f"{name.replace(' ', '-')}-{seed}-{short_id(*key)}"

    def of_mean(self, models: Sequence[Path]) -> Path:
        """Folder of the mean of some models."""
        return self.place / f"mean-{short_id(*(model.name for model in models))}"

    def _stage(self, name: str, seed: int, before: str) -> Arrays:
        if STAGES[name].averages:
            return self._average(self._members(name, seed, before), self.of_stage(name, seed, before))
        start = self.of_stage(before, seed, "") if before else self.start
        stage, out = STAGES[name], self.of_stage(name, seed, before)
        work = self.place / "unfinished" / out.name
        params = self.recipe.params(stage, seed)
        for turn, alpha in enumerate(stage.alphas, 1):
            model = out if turn == len(stage.alphas) else work / f"model-{turn}"
            if not model.is_dir():
                rows, steps = training_set(self.data, stage, self.found, self.recipe, alpha), work / f"turn-{turn}"
                result = train(rows, dev_set(self.data), start, params, steps, threads=settings().threads)
                layout = replace(layout_of(start), max_length=LENGTHS["max_passage_length"])
                export(result.encoder, work / "part", card={"name": name}, layout=layout)
                (work / "part").rename(model)
            start = model
        found = self._ranked_by(out)
        shutil.rmtree(work)
        return found

    def _members(self, name: str, seed: int, before: str) -> dict[str, Path]:
        folders = {}
        for member in STAGES[name].averages:
            if member != START:
                self.stage(member, seed, before)
            folders[member] = self.start if member == START else self.of_stage(member, seed, before)
        return folders

    def _average(self, folders: Mapping[str, Path], out: Path) -> Arrays:
        encoder = average(folders, [1.0] * len(folders), (START,))
        export(encoder, out, card={"name": out.name}, layout=encoder.layout)
        return self._ranked_by(out)

    def _plain(self, seed: int) -> Arrays:
        from plain_training import train_plain, vectors

        pairs = [(pair.query, self.data.passages[pair.passage_id]) for pair in self.data.pairs]
        model = train_plain(self.start, pairs, seed, settings().threads, self.recipe.bf16, device_kind())
        return ranked(self.data, lambda texts, _: vectors(*model, texts, self.recipe.bf16).cpu().numpy())

    def _ranked_by(self, model: Path, data: JudgedSet | None = None) -> Arrays:
        precision: Any = "bfloat16" if self.recipe.bf16 else "float32"
        encoder = load_encoder(model, model.parent, settings().threads, devices(), precision)
        encode = {True: encoder.encode_queries, False: encoder.encode_passages}
        return ranked(data or self.data, lambda texts, asked: encode[asked](list(texts)))

    def _file(self, *parts: Any) -> Path:
        name = "-".join(map(str, parts))
        made_with = self.recipe.size, self.recipe.precision, self.reset_layers, device_kind(), settings().threads
        return self.place / f"{name}-{short_id(*made_with)}.npz"
