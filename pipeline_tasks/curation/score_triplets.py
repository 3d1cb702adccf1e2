"""MTT-alpha-KD: what a teacher makes of each triplet, as soft labels for distillation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS, SCORED_TRIPLETS, TRIPLETS
from pipeline_tasks.retrieval.judges import best_models

_BLOCK = 65_536
_AT_ONCE = 4096


class ScoreTripletsParams(StepParams):
    """Which build, and who scores it."""

    alpha: float = Field(0.95, gt=0, le=1, description="build that is scored")
    models: tuple[str, ...] = Field(
        default_factory=best_models,
        min_length=1,
        description="teachers: one scores all triplets; of several each scores those whose negatives it ranked",
    )


@step(
    reads={
        "triplets": From(TRIPLETS, "mtt/{alpha}"),
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{item}", each="models"),
        "passages": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models"),
    },
    writes=SCORED_TRIPLETS,
    kind="reduce",
    dataset="mtt/{alpha}-kd",
    memory_gib=6,
)
def score_triplets(inputs: Inputs, params: ScoreTripletsParams, run: Run) -> Iterator[pa.Table]:
    """Add the teacher's cosine of each query with its positive and its negatives; nothing is encoded.

    Source: DMRetriever, appendix L: the best model of each intent is the teacher.

    Raises:
        InputError: a triplet has no teacher among the models, or a text has no vector of its teacher.
    """
    triplets = inputs["triplets"]
    ids = triplets.table(["query_id", "positive_id", "negative_ids", "mining_model"]).combine_chunks()
    teachers = _teachers(ids["mining_model"], params.models)
    queries, passages = inputs.by_last_name("queries"), inputs.by_last_name("passages")
    positive = np.empty(ids.num_rows, np.float32)
    negative = np.empty(pc.sum(pc.list_value_length(ids["negative_ids"])).as_py() or 0, np.float32)
    with run.progress(ids.num_rows, "triplets") as meter:
        for number, model in enumerate(params.models):
            rows = np.flatnonzero(teachers == number)
            for at in range(0, len(rows), _BLOCK):
                block = rows[at : at + _BLOCK]
                scores = Scorer(queries[model], passages[model]).scores(ids.take(pa.array(block)))
                positive[block] = scores.positive
                negative[_places(ids["negative_ids"], block)] = scores.negative
                meter.advance(len(block))
    run.count("pairs_scored", len(positive) + len(negative))
    names = pa.array(params.models).take(pa.array(teachers))
    at, first = 0, 0
    for part in triplets.parts():
        n, lengths = part.num_rows, np.asarray(pc.list_value_length(part["negative_ids"]), np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(negative[first : first + ends[-1]]))
        part = part.append_column("teacher", names.slice(at, n))
        part = part.append_column("teacher_positive_score", pa.array(positive[at : at + n]))
        yield part.append_column("teacher_negative_scores", lists)
        at, first = at + n, first + ends[-1]


def _teachers(mining_models: pa.ChunkedArray, models: tuple[str, ...]) -> np.ndarray:
    """Place in ``models`` of each triplet's teacher, int32."""
    if len(models) == 1:
        return np.zeros(len(mining_models), np.int32)
    found = pc.index_in(mining_models, value_set=pa.array(models))
    if found.null_count:
        lacking = pc.unique(mining_models.filter(pc.is_null(found))).to_pylist()
        raise InputError(f"triplets mined with {lacking} have no teacher among {list(models)}; name them in models=")
    return found.to_numpy().astype(np.int32)


def _places(lists: pa.ChunkedArray, rows: np.ndarray) -> np.ndarray:
    """Places of the items of some lists among those of all."""
    lengths = np.asarray(pc.list_value_length(lists), np.int64)
    starts = np.cumsum(lengths) - lengths
    within = np.arange(lengths[rows].sum()) - np.repeat(np.cumsum(lengths[rows]) - lengths[rows], lengths[rows])
    return np.repeat(starts[rows], lengths[rows]) + within


class Scores(NamedTuple):
    """Cosines of a block's positives [n] and of all its negatives, one list after the other."""

    positive: np.ndarray
    negative: np.ndarray


@dataclass(frozen=True)
class Scorer:
    """A teacher's stored vectors; only those that a block needs are held.

    Attributes:
        pairs: rows of ``pair_embeddings``: queries and generated positives.
        passages: rows of ``passage_embeddings``.
    """

    pairs: Version
    passages: Version

    def scores(self, rows: pa.Table) -> Scores:
        """The cosines of every query with its positive and its negatives."""
        lists = rows["negative_ids"].combine_chunks()
        asked = np.arange(rows.num_rows)
        owner = np.concatenate([asked, np.repeat(asked, np.asarray(pc.list_value_length(lists)))])
        names = pa.concat_arrays([rows["positive_id"].combine_chunks(), lists.flatten()])
        distinct = pc.unique(names)
        of_query = _gathered(rows["query_id"].combine_chunks(), [(self.pairs, "query_id", "query_embedding")])
        sources = [(self.passages, "passage_id", "embedding"), (self.pairs, "positive_id", "positive_embedding")]
        of_passage = _gathered(distinct, sources)
        place = IdTable.of(distinct).numbers(names)
        found = np.empty(len(names), np.float32)
        for at in range(0, len(names), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            found[part] = np.einsum("nd,nd->n", of_query[owner[part]], of_passage[place[part]])
        return Scores(found[: rows.num_rows], found[rows.num_rows :])


def _gathered(ids: pa.Array, sources: list[tuple[Version, str, str]]) -> np.ndarray:
    """The vectors of ``ids`` [n, d], each from the last source that has it; each source is read once.

    Raises:
        InputError: no source has a vector of one of them.
    """
    table, found = IdTable.of(ids), None
    seen = np.zeros(len(ids), bool)
    for version, key, column in sources:
        for batch in version.batches([key, column], _AT_ONCE):
            numbers = table.numbers(batch[key])
            wanted = np.flatnonzero(numbers >= 0)
            if len(wanted):
                vectors = matrix(batch[column].take(pa.array(wanted)))
                found = np.empty((len(ids), vectors.shape[1]), np.float32) if found is None else found
                found[numbers[wanted]] = vectors
                seen[numbers[wanted]] = True
    if found is None or not seen.all():
        refs = " and ".join(str(version.manifest.ref) for version, _, _ in sources)
        raise InputError(f"{refs} have no vector of {ids[int(np.argmin(seen))]}; embed what the build was made of")
    return found
