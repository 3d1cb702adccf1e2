"""MTT-alpha-KD: what a teacher makes of each triplet, as soft labels for distillation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import list_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.progress import Meter
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import checked, matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.datasets import (
    INSTRUCTED_PAIRS,
    INSTRUCTED_SCORED_TRIPLETS,
    INSTRUCTED_TRIPLETS,
    PAIR_EMBEDDINGS,
    PASSAGE_EMBEDDINGS,
)
from pipeline_tasks.retrieval.embed_params import is_asked
from pipeline_tasks.retrieval.reference_models import default_best_models

_AT_ONCE = 4096


class ScoreTripletsParams(StepParams):
    """Which build, and who scores it."""

    alpha: Annotated[float, Field(gt=0, le=1)] | Annotated[str, Field(pattern=r"^[a-z][\w./-]*$")] = Field(
        0.95, description="triplet build to score: its level, or its name, such as fret"
    )
    models: tuple[str, ...] = Field(
        default_factory=default_best_models,
        min_length=1,
        description="teachers: one scores all triplets; of several each scores those whose negatives it ranked",
    )


@step(
    reads={
        "triplets": From(INSTRUCTED_TRIPLETS, "mtt/{alpha}"),
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{item}", each="models"),
        "passages": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models"),
    },
    writes=INSTRUCTED_SCORED_TRIPLETS,
    kind="reduce",
    dataset="mtt/{alpha}-kd",
    version="4",
    memory_gib=4,
)
def score_triplets(inputs: Inputs, params: ScoreTripletsParams, run: Run) -> Iterator[pa.Table]:
    """Add the teacher's cosine of each query with its positive and its negatives; nothing is encoded.

    A triplet wants a vector of its query that was encoded with its own instruction, or without one where it has none. A
    teacher may have several versions of vectors, one for each origin of a build; of two with one text the later counts.
    They are read once, into files on this machine with one vector for each of the build's distinct texts.

    Source: DMRetriever, appendix L: the best model of each intent is the teacher.

    Raises:
        InputError: a triplet has no teacher among the models, a text has no vector of its teacher, a query's is of
            another instruction, or a teacher's vectors are of different weights.
    """
    triplets = inputs["triplets"]
    ids = triplets.table(["query_id", "positive_id", "negative_ids", "mining_model", "instruction"]).combine_chunks()
    teachers = _teachers(ids["mining_model"], params.models)
    queries, passages = _by_model(inputs, "queries"), _by_model(inputs, "passages")
    _check_weights(queries, passages)
    positive = np.empty(ids.num_rows, np.float32)
    negative = np.empty(pc.sum(pc.list_value_length(ids["negative_ids"])).as_py() or 0, np.float32)
    with run.progress(len(positive) + len(negative), "pairs") as meter:
        for number, model in enumerate(params.models):
            rows = np.flatnonzero(teachers == number)
            if len(rows):
                own = ids.take(pa.array(rows))
                _check_instructions(own, queries.get(model, ()))
                scores = Scorer(queries.get(model, ()), passages.get(model, ()), run.store).scores(own, meter)
                positive[rows] = scores.positive
                negative[_places(ids["negative_ids"], rows)] = scores.negative
    run.count("pairs_scored", len(positive) + len(negative))
    names = pa.array(params.models).take(pa.array(teachers))
    at, first = 0, 0
    for part in triplets.parts():
        n, lengths = part.num_rows, np.asarray(pc.list_value_length(part["negative_ids"]), np.int64)
        past = first + int(lengths.sum())
        lists = list_array(lengths, pa.array(negative[first:past]))
        part = part.append_column("teacher", names.slice(at, n))
        part = part.append_column("teacher_positive_score", pa.array(positive[at : at + n]))
        yield part.append_column("teacher_negative_scores", lists)
        at, first = at + n, past


def _by_model(inputs: Inputs, name: str) -> dict[str, list[Version]]:
    """Versions of vectors by their model, the last name of their dataset."""
    found: dict[str, list[Version]] = {}
    for version in inputs.each(name):
        found.setdefault(version.last_name, []).append(version)
    return found


def _check_weights(*found: dict[str, list[Version]]) -> None:
    """Make sure that all vectors of a teacher are of the same weights, as far as they say.

    Raises:
        InputError: they are not.
    """
    for model in {name for versions in found for name in versions}:
        by_weights: dict[bytes, Version] = {}
        for version in (version for versions in found for version in versions.get(model, ())):
            if weights := version.manifest.params.get("weights"):
                by_weights.setdefault(canonical_json(weights), version)
        if len(by_weights) > 1:
            refs = " and ".join(str(version.manifest.ref) for version in by_weights.values())
            raise InputError(f"{refs} have vectors of different weights of {model}: encode one of them anew")


def _check_instructions(rows: pa.Table, queries: Sequence[Version]) -> None:
    """Make sure that queries were encoded with the instruction of their triplet, or without one where it has none.

    Raises:
        InputError: one was not.
    """
    table = IdTable.of(rows["query_id"])
    wanted = rows["instruction"].to_numpy(zero_copy_only=False)
    stored = wanted.copy()
    for version in queries:
        intents = version.manifest.params.get("intents", ())
        for ref in version.manifest.inputs.get("pairs", []):
            pairs = Version.open(version.store, Ref.parse(ref), INSTRUCTED_PAIRS)
            for batch in pairs.batches(["query_id", "intent", "instruction"], _AT_ONCE):
                batch = batch.filter(pa.array(is_asked(batch["intent"], intents)))
                numbers = table.numbers(batch["query_id"])
                known = numbers >= 0
                stored[numbers[known]] = batch["instruction"].to_numpy(zero_copy_only=False)[known]
    wrong = np.flatnonzero(stored != wanted)
    if len(wrong):
        at, refs = int(wrong[0]), " and ".join(str(version.manifest.ref) for version in queries)
        asked, had = (f"with {said!r}" if said else "without an instruction" for said in (wanted[at], stored[at]))
        raise InputError(
            f"{rows['query_id'][at]} is asked {asked}, and {refs} have its vector {had}: run embed_pairs on the pairs "
            "that have the build's instructions, or name their vectors (--input queries=…)"
        )


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
    """Cosines of all positives [n] and of all their negatives, one list after the other."""

    positive: np.ndarray
    negative: np.ndarray


@dataclass(frozen=True)
class Scorer:
    """A teacher's stored vectors.

    Attributes:
        pairs: versions of ``pair_embeddings``: queries and generated positives.
        passages: versions of ``passage_embeddings``.
        store: has room for files of those that are needed, for as long as a call.
    """

    pairs: Sequence[Version]
    passages: Sequence[Version]
    store: Store

    def scores(self, rows: pa.Table, done: Meter) -> Scores:
        """The cosines of every query with its positive and its negatives."""
        lists = rows["negative_ids"].combine_chunks()
        asked = np.arange(rows.num_rows)
        owner = np.concatenate([asked, np.repeat(asked, np.asarray(pc.list_value_length(lists)))])
        names = pa.concat_arrays([rows["positive_id"].combine_chunks(), lists.flatten()])
        distinct = pc.unique(names)
        asking = [(version, "query_id", "query_embedding") for version in self.pairs]
        sources = [(version, "passage_id", "embedding") for version in self.passages]
        sources += [(version, "positive_id", "positive_embedding") for version in self.pairs]
        place = IdTable.of(distinct).numbers(names)
        found = np.empty(len(names), np.float32)
        with (
            _gathered(rows["query_id"].combine_chunks(), asking, self.store) as of_query,
            _gathered(distinct, sources, self.store) as of_passage,
        ):
            for at in range(0, len(names), _AT_ONCE):
                part = slice(at, at + _AT_ONCE)
                found[part] = np.einsum("nd,nd->n", of_query[owner[part]], of_passage[place[part]])
                done.advance(len(found[part]))
        return Scores(found[: rows.num_rows], found[rows.num_rows :])


@contextmanager
def _gathered(ids: pa.Array, sources: list[tuple[Version, str, str]], store: Store) -> Iterator[np.ndarray]:
    """The vectors of ``ids`` [n, d], each from the last source that has it, in a file; each source is read once.

    Raises:
        InputError: no source has a vector of one of them, or one is zero or not finite.
        TransientError: the disk is full.
    """
    with store.temporary() as path:
        table, found = IdTable.of(ids), np.empty((0, 0), np.float32)
        seen = np.zeros(len(ids), bool)
        for version, key, column in sources:
            for batch in version.batches([key, column], _AT_ONCE):
                numbers = table.numbers(batch[key])
                wanted = np.flatnonzero((numbers >= 0) & batch[column].is_valid().to_numpy())
                if len(wanted):
                    rows = batch.take(pa.array(wanted))
                    vectors = checked(matrix(rows[column]), rows[key], f"{version.manifest.ref} {column}")
                    found = found if len(found) else _mapped(path, (len(ids), vectors.shape[1]))
                    found[numbers[wanted]] = vectors
                    seen[numbers[wanted]] = True
        if not seen.all():
            refs = " and ".join(str(version.manifest.ref) for version, _, _ in sources) or "the inputs"
            raise InputError(f"{refs} have no vector of {ids[int(np.argmin(seen))]}; embed what the build was made of")
        yield found


def _mapped(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """An array of float32 in a file, whose room is taken first: a write to a full disk would end the process."""
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape)
