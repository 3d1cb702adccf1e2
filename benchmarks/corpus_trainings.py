"""The trainings that ``adapt_to_corpus.py`` compares; each model lies in a folder and is not trained twice."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from corpus_tasks import Task
from learning_rows import Arrays, load_or_make

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.rank_lists import Strategy, interval_ends, sample
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.adapt_to_corpus import AdaptToCorpusParams
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.params import TrainParams

LENGTHS = {"max_query_length": 64, "max_passage_length": 192}
U = 40
Objective = Literal["info_nce", "list_net", "list_mle"]
Teacher = Literal["evidence", "bm25", "fused"]


@dataclass(frozen=True)
class Setting:
    """What is chosen on development queries.

    Attributes:
        objective: ``info_nce`` is contrastive learning on the evidence, with what a teacher ranks lower as negatives
            where there is one; all others learn a teacher's lists.
        teacher: what ranks the corpus for a query: BM25, or BM25 fused with the embedder as it came.
        alpha: of the objective; 0 where it has none.
    """

    objective: Objective
    teacher: Teacher
    alpha: float
    temperature: float
    learning_rate: float
    m: int = 0
    k: int = 0
    strategy: Strategy = "doubling"

    @property
    def in_batch(self) -> bool:
        """Whether the passages of the other rows are negatives."""
        return self.objective == "info_nce"


class Trainings:
    """Of one corpus.

    Args:
        task: it.
        options: of the command line.
        place: where models and vectors stay.
    """

    def __init__(self, task: Task, options: argparse.Namespace, place: Path) -> None:
        self.task, self.options, self.place = task, options, place
        self.start = folder(backbone("22m").name)

    @cached_property
    def index(self) -> Bm25:
        """BM25 of the corpus, as the paper has it."""
        return Bm25(self.task.texts, 1.2, 0.75)

    def model(self, setting: Setting, seed: int) -> Path:
        """The folder of a trained embedder: the weights of the last step, for none is chosen on the way."""
        key = [asdict(setting), seed, [p.query for p in self.task.train], len(self.task.texts), settings().threads]
        own = {name: getattr(self.options, name) for name in ("batch", "first", "skip", "n_lists", "precision")}
        found = self.place / f"{setting.objective}-{setting.teacher}-{seed}-{short_id(*key, own)}"
        if not found.is_dir():
            with tempfile.TemporaryDirectory() as work:
                rows, params = self._rows(setting), self._params(setting, seed)
                result = train(rows, Examples.of(), self.start, params, Path(work), threads=settings().threads)
            layout = replace(layout_of(self.start), max_length=LENGTHS["max_passage_length"])
            part = found.with_suffix(".part")
            export(result.encoder, part, card={"name": found.name}, layout=layout)
            part.rename(found)
        return found

    def passages(self, model: Path) -> np.ndarray:
        """Vectors of the corpus."""
        return self._vectors(model, "passages", lambda encoder: encoder.encode_passages(self.task.texts))

    def dev(self, model: Path) -> np.ndarray:
        """Vectors of the development queries."""
        return self._vectors(model, "dev", lambda encoder: encoder.encode_queries([p.query for p in self.task.dev]))

    def judged(self, model: Path, way: str, queries: Sequence[str]) -> np.ndarray:
        """Vectors of the judged queries, as they are asked in one way."""
        return self._vectors(model, f"judged-{way}", lambda encoder: encoder.encode_queries(list(queries)))

    def encoder(self, model: Path) -> Encoder:
        """Of a folder, in the arithmetic of the trainings."""
        precision: Any = "bfloat16" if self.options.precision == "bf16" else "float32"
        return load_encoder(model, settings().cache, settings().threads, precision=precision)

    def _vectors(self, model: Path, name: str, encode: Any) -> np.ndarray:
        sizes = [len(self.task.texts), len(self.task.dev), len(self.task.data.queries), self.options.precision]
        place = self.place / "vectors" / f"{model.name}-{name}-{short_id(*sizes)}.npz"
        return load_or_make(place, lambda: {"vectors": encode(self.encoder(model))})["vectors"]

    def rankings(self, teacher: Teacher) -> Arrays:
        """Places and scores of the deepest lists that are asked for, of every query to train on; -1 after the end."""
        queries, depth = [pair.query for pair in self.task.train], min(max(self.options.k), len(self.task.texts))

        def make() -> Arrays:
            found = self.index.search(queries, depth)
            by_words = np.where(found.scores > 0, found.indices, -1)
            if teacher == "bm25":
                return {"places": by_words, "scores": found.scores}
            near = top_k(self.encoder(self.start).encode_queries(queries), self.passages(self.start), depth)[0]
            places, scores = fuse([by_words, near], depth, U)
            return {"places": places, "scores": scores}

        return load_or_make(
            self.place / f"rankings-{teacher}-{short_id(queries, depth, len(self.task.texts))}.npz", make
        )

    def _rows(self, setting: Setting) -> Examples:
        """Each query with its evidence, or lists of its ranking as ``sample_rank_lists`` draws them."""
        task, rows = self.task, []
        if setting.teacher == "evidence":
            return Examples.of([p.query for p in task.train], [task.data.passages[p.passage_id] for p in task.train])
        texts, found = task.texts, self.rankings(setting.teacher)
        for pair, places, scores in zip(task.train, found["places"], found["scores"], strict=True):
            there = places[: setting.k] >= 0
            own, own_scores = places[: setting.k][there], scores[: setting.k][there]
            head = np.array([task.places[pair.passage_id]] if setting.objective == "info_nce" else [], np.int64)
            if len(head):
                behind = np.flatnonzero(own != head)[self.options.skip :]
                own, own_scores = own[behind], own_scores[behind]
            ends = interval_ends(own_scores, setting.m - len(head), setting.strategy, "rank", self.options.first)
            for ranks in sample(pair.query, ends, self.options.n_lists):
                drawn = [texts[p] for p in (*head, *own[ranks])]
                if len(drawn) > 1:
                    taught = [] if len(head) else own_scores[ranks].tolist()
                    rows.append((pair.query, drawn, taught))
        queries, passages, targets = zip(*rows, strict=True)
        return Examples.of(queries, [one[0] for one in passages], [one[1:] for one in passages], targets=targets)

    def _params(self, setting: Setting, seed: int) -> TrainParams:
        objective: dict[str, Any] = {"name": setting.objective} | ({"alpha": setting.alpha} if setting.alpha else {})
        kind = TrainParams if setting.teacher == "evidence" else AdaptToCorpusParams
        return kind(
            size="22m", device="cpu", seed=seed, batch_size=self.options.batch, precision=self.options.precision,
            temperature=setting.temperature, learning_rate=setting.learning_rate, in_batch=setting.in_batch,
            objective=objective, **LENGTHS,
        )  # fmt: skip
