"""A block of rankings as compiled loops read it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import strings
from pipeline_tasks.curation.negative_rules import Ranked
from pipeline_tasks.retrieval.fusion import BM25, sharing_words


def ranked_of(block: pa.Table, version: Version) -> Ranked:
    """The rankings of a block of ``version``; of BM25's only what shares a word with its query.

    Raises:
        InputError: a query has another number of passages than scores.
    """
    ids, scores = (one_array(block[name]) for name in ("passage_ids", "scores"))
    starts, same = (np.asarray(column.offsets, np.int64) for column in (ids, scores))
    if not np.array_equal(starts - starts[0], same - same[0]):
        raise InputError(f"{version.manifest.ref}: a query has another number of passages than scores; rank again")
    if version.last_name == BM25:
        ids, scores = sharing_words(ids, scores)
        starts = np.asarray(ids.offsets, np.int64)
    return Ranked(strings(ids.flatten()), scores.flatten().to_numpy(), starts - starts[0])
