"""Which passages are nearly an earlier one: cosine above 0.9, found exactly; new passages against stored ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.earlier import earlier
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.core.versions import Version, manifest_key
from pipeline_tasks.corpus.all_pairs import AllPairs
from pipeline_tasks.corpus.keep_earliest import UNKNOWN, keep_earliest
from pipeline_tasks.datasets import PASSAGE_DUPLICATES, PASSAGE_EMBEDDINGS

_UNIT_WITHIN = 1e-3


class ClusterPassagesParams(StepParams):
    """When two passages are the same."""

    threshold: float = Field(0.9, gt=0, le=1, description="cosine above which two passages are the same")
    model: str = Field("all-minilm-l6-v2", description="encoder whose embeddings are compared")


@step(
    reads={"embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{model}")},
    writes=PASSAGE_DUPLICATES,
    kind="reduce",
    dataset="duplicates/passages",
    memory_gib=4,
)
def cluster_passages(inputs: Inputs, params: ClusterPassagesParams, run: Run) -> Iterator[pa.Table]:
    """Name for every passage the earlier one that it repeats and that stays, else itself.

    All pairs are found, and the result depends on nothing but vectors, order and threshold. What the latest version
    says of parts that are still there is taken over, so a refresh costs (new passages) x (all passages); one part of
    output per part of input, so that what did not change is stored once.

    Source: DMRetriever, appendix A (5); there an approximate search.

    Raises:
        InputError: vectors of several widths, or one that is not finite or not of length 1.
    """
    embeddings = inputs["embeddings"]
    parts = [part["passage_id"].combine_chunks() for part in embeddings.parts(["passage_id"])]
    ids = pa.concat_arrays(parts) if parts else pa.array([], pa.string())
    known, cosines = _taken_over(run.store, params, embeddings, parts, ids)
    run.count("passages_taken_over", int((known != UNKNOWN).sum()))
    pairs = AllPairs(_vectors(embeddings, len(ids)), params.threshold)
    representatives, cosines = keep_earliest(pairs, known, cosines, run.progress)
    run.count("pairs_screened", pairs.screened)
    run.count("pairs_checked", pairs.checked)
    columns = [ids, ids.take(pa.array(representatives)), pa.array(cosines.astype(np.float32))]
    table = pa.table(columns, schema=PASSAGE_DUPLICATES.arrow)
    at = 0
    for part in parts:
        yield table.slice(at, len(part)).combine_chunks()
        at += len(part)


def _vectors(embeddings: Version, n: int) -> np.ndarray:
    """All embeddings as unit vectors in one matrix, read part by part.

    Shapes: [n, d] float32.
    """
    vectors, at = np.empty((n, 0), np.float32), 0
    for part in embeddings.parts(["passage_id", "embedding"]):
        if not part.num_rows:
            continue
        widths = pc.fill_null(pc.list_value_length(part["embedding"]), 0).to_numpy()
        if at == 0:
            vectors = np.empty((n, int(widths[0])), np.float32)
        _refuse(part, widths != vectors.shape[1], f"is not of {vectors.shape[1]} numbers; use one model")
        fresh = matrix(part["embedding"])
        lengths = np.linalg.norm(fresh, axis=1)
        _refuse(part, ~np.isfinite(lengths), "holds NaN or infinity; encode the passage again")
        _refuse(part, abs(lengths - 1) > _UNIT_WITHIN, "is not of length 1; normalise the model's output")
        np.divide(fresh, lengths[:, None], out=vectors[at : at + len(fresh)])
        at += len(fresh)
    return vectors


def _refuse(part: pa.Table, bad: np.ndarray, why: str) -> None:
    if bad.any():
        raise InputError(f"the embedding of passage {part['passage_id'][int(bad.argmax())]} {why}")


def _taken_over(
    store: Store, params: ClusterPassagesParams, now: Version, parts: list[pa.Array], ids: pa.Array
) -> tuple[np.ndarray, np.ndarray]:
    """What the latest version says of passages whose part is still there, as far as the passage it names is, too.

    Shapes: index of the representative or :data:`UNKNOWN`, and cosine to it; both [n].
    """
    representatives, cosines = np.full(len(ids), UNKNOWN, np.int64), np.zeros(len(ids))
    before = earlier(store, cluster_passages, params)
    read = Ref.parse(before.manifest.inputs["embeddings"][0]) if before else None
    if before is None or read is None or store.read(manifest_key(read)) is None:
        return representatives, cosines
    stored = {part.sha256: index for index, part in enumerate(Version.open(store, read).manifest.parts) if part.rows}
    places = [stored.get(part.sha256) for part in now.manifest.parts]
    shared = [place for place in places if place is not None]
    if shared != sorted(shared):
        return representatives, cosines
    in_shared = np.repeat([place is not None for place in places], [len(part) for part in parts])
    at = 0
    for place, part in zip(places, parts, strict=True):
        here = slice(at, at := at + len(part))
        if place is not None:
            said = before.part(place)
            row = pc.index_in(part, said["passage_id"].combine_chunks())
            index = pc.fill_null(pc.index_in(said["representative_id"].take(row), ids), UNKNOWN).to_numpy()
            representatives[here] = np.where((index >= 0) & in_shared[index], index, UNKNOWN)
            cosines[here] = pc.fill_null(said["cosine"].take(row), 0).to_numpy()
    return representatives, cosines
