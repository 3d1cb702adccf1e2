"""Pairs whose passage went, or changed its side of the split, since they were read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.synthesis.query_words import queries_of


def refuse_moved(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The places of a shard's pairs that name a passage which is not there, or is on another side than the pair.

    One part of the passages is in memory at a time. Rejects: ``unknown_passage``, ``other_side``. Rows: of the shard,
    and ``passages``. Values: ``first``, the place of the first row.
    """
    pairs, passages = queries_of(given, ["query_id", "passage_id", "split"]), given.rows["passages"]
    asked, split = (one_array(pairs[name]) for name in ("passage_id", "split"))
    ids = asked.unique()
    sides = np.full(len(ids), None, object)
    for part in passages.tables(["passage_id", "split"]):
        at = one_array(pc.index_in(part["passage_id"], ids))
        sides[at.drop_null().to_numpy()] = part["split"].fill_null("").filter(at.is_valid()).to_numpy()
    side = pa.array(sides, pa.string()).take(pc.index_in(asked, ids))
    is_asked = pc.not_equal(asked, "")
    stays = np.ones(len(pairs), bool)
    for reason, found in (
        ("unknown_passage", pc.and_(is_asked, side.is_null())),
        ("other_side", pc.and_(is_asked, pc.not_equal(side, split)).fill_null(False)),
    ):
        sides_told = pc.fill_null(side, "not known")
        details = pc.binary_join_element_wise(asked, ": its split is ", sides_told, ", the pair's is ", split, "")
        run.reject_all(one_array(pairs["query_id"]).filter(found), reason, details.filter(found))
        stays &= ~found.to_numpy(zero_copy_only=False)
    yield pa.table({"place": np.flatnonzero(~stays) + given.values["first"]})
