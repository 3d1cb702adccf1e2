"""Vectors that are there already, of the texts that an evaluation asks with and is asked of."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.open_encoder import Precision

_AT_ONCE = 10_000


def passage_vectors(stored: Version, passage_ids: list[str]) -> np.ndarray:
    """The embeddings in ``stored``, which are of these passages.

    Shapes: returns [n, d], in the order of ``passage_ids``, which rise.

    Raises:
        InputError: they are of other passages.
    """
    places = {name: place for place, name in enumerate(passage_ids)}
    ids = stored.table(["passage_id"])["passage_id"].to_pylist()
    if len(ids) != len(places) or places.keys() != {*ids}:
        raise InputError(f"{stored.manifest.ref} is not of the evaluated passages; run embed_passages on them")
    found, rows = np.zeros((0, 0), np.float32), iter(ids)
    for block in stored.batches(["embedding"], _AT_ONCE):
        vectors = matrix(block["embedding"])
        found = found if found.size else np.empty((len(ids), vectors.shape[1]), np.float32)
        found[[places[name] for name in islice(rows, len(vectors))]] = vectors
    return found


def query_vectors(judged: Version, model: str, precision: Precision) -> np.ndarray | None:
    """What ``embed_pairs`` made of the judged queries, where they are queries of pairs that it has encoded; else None.

    It is the version that the step would find made: of these pairs, by this model as it is today, with the instructions
    of today. So it is no input of an evaluation but spares work, as the memo of a map step does.

    Shapes: returns [q, d], by rising query id.
    """
    pairs, made = judged.manifest.inputs.get("pairs"), None
    with suppress(InputError):  # the pairs are no longer there
        if pairs:
            job = plan(judged.store, embed_pairs, {"model": model, "precision": precision}, {"pairs": pairs})
            made = job.made(judged.store)
    return _of(judged, Version.open(judged.store, made)) if made else None


def _of(judged: Version, stored: Version) -> np.ndarray | None:
    wanted = judged.table(["query_id"])["query_id"].combine_chunks()
    blocks = stored.batches(["query_id", "query_embedding"], _AT_ONCE)
    found = pa.concat_tables([block.filter(pc.is_in(block["query_id"], wanted)) for block in blocks])
    found = found.filter(found["query_embedding"].is_valid())
    return matrix(found.sort_by("query_id")["query_embedding"]) if found.num_rows == len(wanted) else None
