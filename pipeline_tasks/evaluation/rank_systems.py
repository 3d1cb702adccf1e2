"""Rankings of judged queries by every system of an evaluation: partitions of the steps that score them.

What a system made of a corpus and of queries is remembered. An evaluation that names a system again, beside others,
with other measures or in another fusion, encodes nothing for it; one of other queries finds the vectors of the corpus
(:mod:`~pipeline_tasks.evaluation.corpus_vectors`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import in_order, lists_at, one_array, places_in
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.evaluation import systems
from pipeline_tasks.evaluation.corpus_vectors import BLOCK, SystemEncoder, by_rising_id, encode_corpus, texts_by_place
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.geometry import geometry
from pipeline_tasks.evaluation.stored_vectors import passage_vectors, query_vectors
from pipeline_tasks.evaluation.systems import FUSED_DEPTH, Queries, kind_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.embed_params import check_weights
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.open_encoder import instructions_of
from pipeline_tasks.retrieval.search import top_k


@dataclass(frozen=True)
class EvaluatedSystem:
    """One thing under evaluation.

    Attributes:
        name: as it is called in the rows.
        kind: what ranks; a fusion is of other systems' rankings.
        version: ``dataset@version`` of a trained model, else empty.
        decided_by: what else decides its rankings.
        stored: embeddings of the corpus that are there already.
    """

    name: str
    kind: Literal["bm25", "start", "folder", "registered", "version", "fusion"]
    version: str = ""
    decided_by: dict[str, Any] = field(default_factory=dict)
    stored: Version | None = None

    def partition(self, inputs: Inputs, instruction_columns: Sequence[str], depth: int) -> Partition:
        """What :func:`rank_system` reads: nothing of it changes with the other systems."""
        given = {"queries": inputs["queries"], "passages": inputs["passages"]}
        given |= {"embeddings": self.stored} if self.stored else {}
        asked = {"kind": self.kind, "decided_by": self.decided_by, "told": [*instruction_columns], "depth": depth}
        values = asked | ({"name": self.name} if self.kind == "registered" else {})
        return Partition({of: Rows(version) for of, version in given.items()}, values=values)


def rank_systems(
    inputs: Inputs, params: EvaluationParams, run: PartitionedRun, instruction_columns: Sequence[str]
) -> list[tuple[EvaluatedSystem, Part]]:
    """Each system with its rankings: of every query, by rising query id, the passages' ids, best first.

    How an embedder lays out queries and passages is counted as ``alignment/<system>`` and so on, where queries are
    asked once (:mod:`~pipeline_tasks.evaluation.geometry`).

    Args:
        inputs: ``queries``, ``passages``, ``embeddings`` and ``models`` of the step.
        params: what is compared.
        run: of the step.
        instruction_columns: each query is asked once under the instructions of each, all queries under the first first.

    Raises:
        InputError: embeddings are not of these passages, a fusion names a system that is not here, two systems have one
            name, a name is of nothing, or a folder changes meanwhile.
    """
    found = [*_systems(inputs, params)]
    twice = [name for name, n in Counter(system.name for system in found).items() if n > 1]
    if twice:
        raise InputError(f"two systems are called {twice[0]!r}: leave one of them to another evaluation")
    alone, depth = [system for system in found if system.kind != "fusion"], max(params.depth, FUSED_DEPTH)
    known = {system.name: system.version for system in alone}
    fused = {system.name: systems.members_among(system.name, known) for system in found[len(alone) :]}
    ranked: dict[str, Part] = {}
    for system in alone:
        given = system.partition(inputs, instruction_columns, depth)
        if system.kind != "bm25" and not run.remembers(rank_system, given):
            model = SystemEncoder(system.kind, system.name, system.decided_by, params, run)
            vectors = [] if system.stored else encode_corpus(model, inputs["passages"], run)
            given = replace(given, beside={"model": model, "vectors": vectors})
        ((ranked[system.name], *laid_out),) = run.spread(rank_system, [given])
        for row in (row for part in laid_out for row in read_part(run.store, part).to_pylist()):
            run.counters.update({f"{name}/{system.name}": value for name, value in row.items()})
    for system in found[len(alone) :]:
        members = {"members": [ranked[name] for name in fused[system.name]]}
        fusion = Partition(parts=members, values=system.decided_by | {"depth": depth})
        ranked[system.name] = run.spread(fuse_systems, [fusion])[0][0]
    run.count("systems", len(found))
    return [(system, ranked[system.name]) for system in found]


def _systems(inputs: Inputs, params: EvaluationParams) -> Iterator[EvaluatedSystem]:
    """Fusions last, because they need the others."""
    if params.has_start:
        instructions = instructions_of(get(params.start.name)) if params.start.folder is None else {}
        decided_by = params.start.identity() | ({systems.OF_QUERIES: instructions} if instructions else {})
        yield EvaluatedSystem(f"{params.size}/untrained", "start", decided_by=decided_by)
    stored = inputs.by_last_name("embeddings")
    for name in dict.fromkeys((*params.systems, *stored)):
        match kind_of(name):
            case "bm25":
                yield EvaluatedSystem(name, "bm25", decided_by=systems.identity(name))
            case "folder":
                yield EvaluatedSystem(name, "folder", decided_by=params.identity_of(name))
            case "registered":
                yield _registered(name, stored.get(name))
    trained = inputs.each("models")
    names = Counter(system_name(version) for version in trained)
    for version in trained:
        ref, name = str(version.manifest.ref), system_name(version)
        called = name if names[name] == 1 else f"{name}@{version.manifest.id}"
        yield EvaluatedSystem(called, "version", ref, {"version": ref, "libraries": versions_of("tokenizers")})
    for name in (name for name in params.systems if kind_of(name) == "fusion"):
        yield EvaluatedSystem(name, "fusion", decided_by={"k": systems.members(name)[1]})


def _registered(name: str, stored: Version | None) -> EvaluatedSystem:
    if stored:
        check_weights(name, stored)
    precision = stored.manifest.params["precision"] if stored else "float32"
    known = systems.identity(name) | {"precision": precision, systems.OF_QUERIES: instructions_of(get(name))}
    return EvaluatedSystem(name, "registered", decided_by=known, stored=stored)


def system_name(version: Version) -> str:
    """``<size>/<stage>``, and for fine-tuning the alpha of its iteration."""
    _, size, stage = version.manifest.dataset.split("/")
    alpha = version.manifest.params.get("alpha")
    return f"{size}/{stage}-{alpha}" if alpha is not None else f"{size}/{stage}"


def rank_system(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The rankings of one system that is no fusion; of an embedder one row of its geometry, where that is known.

    A query that is a passage itself, as in ArguAna, does not find itself.
    """
    judged, corpus = judged_of(given), given.rows["passages"].version
    asked = _make_queries(judged, in_order(corpus.table(["passage_id"]), "passage_id"), given.values["told"])
    themselves, depth = _themselves(judged, asked, corpus), given.values["depth"]
    deep = min(depth + int((themselves >= 0).any()), len(asked.passage_ids))
    ids = pa.array(asked.passage_ids, pa.string())
    if given.values["kind"] == "bm25":
        found = asked.rank_bm25(texts_by_place(corpus), deep)
        yield pa.table({"passage_ids": lists_at(_without(themselves, found, depth), ids)})
        return
    queries, passages = _vectors(given, asked, run)
    found, cosines = top_k(queries, passages, deep)
    yield pa.table({"passage_ids": lists_at(_without(themselves, found, depth), ids)})
    answers = _answers(judged, asked.passage_ids)
    if len(queries) == len(answers) and len(passages) > 1:
        nearest = np.where(found == themselves[:, None], -1, cosines).max(axis=1)
        yield pa.Table.from_pylist([geometry(queries, answers, passages, nearest)._asdict()])


def _themselves(judged: pa.Table, asked: Queries, passages: Version) -> np.ndarray:
    """The place [q] of the passage that a query is itself, and that is not judged for it; -1: it is none."""
    places = pc.index_in(judged["query_id"], value_set=pa.array(asked.passage_ids, pa.string())).to_pylist()
    names, known = judged["query_id"].to_pylist(), judged["passage_ids"].to_pylist()
    texts = _texts(passages, [name for name, place in zip(names, places, strict=True) if place is not None])
    n_times = len(asked.queries) // max(1, judged.num_rows)
    rows = zip(asked.queries, names * n_times, places * n_times, known * n_times, strict=True)
    return np.array(
        [
            place if name in texts and is_of(query, texts[name]) and name not in ids else -1
            for query, name, place, ids in rows
        ],
        np.int64,
    )


def _texts(passages: Version, ids: list[str]) -> dict[str, str]:
    """Those of some passages; no text is read where there are none."""
    wanted, columns = pa.array(ids, pa.string()), ["passage_id", "text"]
    blocks = passages.batches(columns, BLOCK) if ids else ()
    found = (block.filter(pc.is_in(block["passage_id"], wanted)).to_pydict() for block in blocks)
    return {name: text for block in found for name, text in zip(*block.values(), strict=True)}


def is_of(query: str, passage: str) -> bool:
    """Whether a passage of a query's id is that query: its text, before which there may be a title.

    Ids alone do not say so: queries and passages of many sets are both numbered from 1.
    """
    return passage.strip().endswith(query.strip())


def _without(themselves: np.ndarray, ranked: np.ndarray, depth: int) -> np.ndarray:
    """Rankings [q, any] of positions, cut at ``depth``, without each query's own [q], which is -1 where it has none."""
    others = np.where(ranked == themselves[:, None], -1, ranked)
    order = np.argsort(others < 0, axis=1, kind="stable")
    return np.take_along_axis(others, order, axis=1)[:, :depth]


def _answers(judged: pa.Table, passage_ids: list[str]) -> np.ndarray:
    """The position of the best answer of each query; none at all where one is not in the corpus."""
    places = {name: place for place, name in enumerate(passage_ids)}
    judgements = zip(judged["passage_ids"].to_pylist(), judged["grades"].to_pylist(), strict=True)
    best = [max(zip(grades, ids, strict=True), default=(0, ""))[1] for ids, grades in judgements]
    return np.array([places[name] for name in best] if places.keys() >= {*best} else [], np.int64)


def fuse_systems(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The reciprocal rank fusion of the first ranks of systems; ties by passage id, and as deep as there are any."""
    ranked = [one_array(read_part(run.store, part)["passage_ids"]) for part in given.parts["members"]]
    members = [pc.list_slice(member, 0, FUSED_DEPTH) for member in ranked]
    ids = pc.unique(pa.concat_arrays([member.flatten() for member in members])).sort()
    fused = fuse([places_in(member, ids) for member in members], **given.values)[0]
    yield pa.table({"passage_ids": lists_at(fused, ids)})


def judged_of(given: Partition) -> pa.Table:
    """The judged queries by rising id, as rankings have them; those that an erasure left without an answer are none."""
    rows = given.rows["queries"].version.table().sort_by("query_id")
    return rows.filter(pa.array([_has_answer(*grades) for grades in zip(*_grades(rows), strict=True)], pa.bool_()))


def _grades(rows: pa.Table) -> list[list[list[int]]]:
    return [rows[name].to_pylist() for name in ("grades", "changed_grades") if name in rows.column_names]


def _has_answer(first: Sequence[int], then: Sequence[int] | None = None) -> bool:
    """Whether a passage is relevant; of a query that is asked twice, whether the relevance of one changes."""
    if then is None:
        return any(grade > 0 for grade in first)
    return any((one > 0) != (other > 0) for one, other in zip(first, then, strict=True))


def ranked_ids(store: Store, given: Partition) -> list[list[str]]:
    """The ids that a system found, best first, [q] under each column of instructions in turn, as deep as one looks."""
    (ranked,) = given.parts["ranked"]
    return pc.list_slice(read_part(store, ranked)["passage_ids"], 0, given.values["depth"]).to_pylist()


def _make_queries(judged: pa.Table, corpus: pa.Table, instruction_columns: Sequence[str]) -> Queries:
    n_times = len(instruction_columns)
    texts, intents = (judged[name].to_pylist() * n_times for name in ("query", "intent"))
    own: list[str | None] | None = None
    if set(instruction_columns) <= set(judged.column_names):
        own = [instruction for column in instruction_columns for instruction in judged[column].to_pylist()]
    return Queries(texts, intents, corpus["passage_id"].to_pylist(), own)


def _vectors(given: Partition, asked: Queries, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Of queries and passages; a query is encoded where it has no vector yet."""
    model: SystemEncoder = given.beside["model"]
    stored, queries = given.rows.get("embeddings"), None
    passages = passage_vectors(stored.version, asked.passage_ids) if stored else None
    if model.kind == "registered":
        queries = query_vectors(given.rows["queries"].version, model.name, model.decided_by["precision"])
    run.count("vectors_read", sum(len(read) for read in (passages, queries) if read is not None))
    if queries is None:
        queries = model.encode(run, len(asked.queries), asked.encoded_by)
    if passages is None:
        passages = by_rising_id(run.store, given.beside["vectors"], given.rows["passages"].version, queries.shape[1])
    return queries, passages
