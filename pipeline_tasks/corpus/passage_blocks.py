"""Passages compared a block with a block: partitions of ``cluster_passages``, of which none holds the corpus.

A partition has two sides, ``later`` and ``earlier``: some passages of a block, read from where they lie, or some of
many blocks, that were gathered before. A passage is known by its place in the order of all.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.vectors import lists, matrix
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.corpus.all_pairs import AllPairs
from pipeline_tasks.corpus.keep_earliest import UNKNOWN, most_alike, settle

_UNIT_WITHIN = 1e-3
_FOUND = pa.schema({"row": pa.int64(), "representative": pa.int64(), "cosine": pa.float64()})


@dataclass(frozen=True)
class Side:
    """Some passages, as a partition is told of them.

    Attributes:
        rows: the block that they are of; None where they were gathered.
        gathered: tables of :func:`gather`.
        first: place of the block's first passage in the order of all.
        chosen: which of the block they are, a bit for each.
    """

    rows: Rows | None = None
    gathered: Sequence[Part] = ()
    first: int = 0
    chosen: str = ""

    @classmethod
    def of_block(cls, rows: Rows, first: int, places: np.ndarray) -> Side:
        """Those of a block at ``places`` in the order of all."""
        chosen = np.zeros(int(places[-1]) - first + 1, bool)
        chosen[places - first] = True
        return cls(rows=rows, first=first, chosen=b64encode(np.packbits(chosen).tobytes()).decode())


def partition_of(
    values: Mapping[str, Any], parts: Mapping[str, Sequence[Part]] | None = None, **sides: Side
) -> Partition:
    """What a function of this module reads: the ``width`` of all vectors, the ``threshold``, and some sides."""
    rows = {name: side.rows for name, side in sides.items() if side.rows}
    gathered = {name: side.gathered for name, side in sides.items() if not side.rows}
    places = {name: [side.first, side.chosen] for name, side in sides.items() if side.rows}
    return Partition(rows, gathered | dict(parts or {}), dict(values) | places)


def gather(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Places and vectors of some passages of a block, the later side."""
    places, vectors = _read(given, run, "later")
    yield pa.table({"row": places, "embedding": lists(vectors)})


def find_alike(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of the later side each passage that is like one before it of the earlier side, and the one that it is most like.

    The two sides have no passage in common.
    """
    places, vectors = _read(given, run, "earlier", "later")
    earlier = np.isin(places, _places(given, run, "earlier"), assume_unique=True)
    pairs = AllPairs(vectors, given.values["threshold"])
    i, j, cosines = most_alike(*pairs.above(np.flatnonzero(~earlier), np.flatnonzero(earlier)))
    _count(pairs, run)
    yield pa.table([places[i], places[j], cosines], schema=_FOUND)


def settle_batch(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The representative of each passage of the later side: one that was found elsewhere, one of this side, or itself.

    Parts: ``alike``, tables of :func:`find_alike`.
    """
    places, vectors = _read(given, run, "later")
    elsewhere = pa.concat_tables([_FOUND.empty_table(), *(read_part(run.store, part) for part in given.parts["alike"])])
    rows = np.searchsorted(places, elsewhere["row"].to_numpy())
    alike = np.zeros(len(places), bool)
    alike[rows] = True
    pairs = AllPairs(vectors, given.values["threshold"])
    with run.progress(len(alike), "passages") as meter:
        here, cosines = settle(pairs, alike, advance=meter.advance)
    _count(pairs, run)
    known = np.flatnonzero(here != UNKNOWN)
    _, representatives, best = most_alike(
        np.concatenate([rows, known]),
        np.concatenate([elsewhere["representative"].to_numpy(), places[here[known]]]),
        np.concatenate([elsewhere["cosine"].to_numpy(), cosines[known]]),
    )
    yield pa.table([places, representatives, best], schema=_FOUND)


def _count(pairs: AllPairs, run: Run) -> None:
    run.count("pairs_screened", pairs.screened)
    run.count("pairs_checked", pairs.checked)


def _read(given: Partition, run: Run, *sides: str) -> tuple[np.ndarray, np.ndarray]:
    """Places of the passages of some sides, in their order, and their vectors, of length 1.

    Shapes: [n] and [n, d].
    """
    of_sides = [_places(given, run, name) for name in sides]
    places = np.concatenate(of_sides)
    order = np.argsort(places)
    at = np.empty_like(order)
    at[order] = np.arange(len(order))
    vectors, done = np.empty((len(places), given.values["width"]), np.float32), 0
    for name in sides:
        for some in _vectors(given, run, name):
            vectors[at[done : done + len(some)]] = some
            done += len(some)
    return places[order], vectors


def _places(given: Partition, run: Run, name: str) -> np.ndarray:
    if name in given.rows:
        return given.values[name][0] + np.flatnonzero(_chosen(given, name))
    return np.concatenate([read_part(run.store, part, ["row"])["row"].to_numpy() for part in given.parts[name]])


def _chosen(given: Partition, name: str) -> np.ndarray:
    return np.unpackbits(np.frombuffer(b64decode(given.values[name][1]), np.uint8)).astype(bool)


def _vectors(given: Partition, run: Run, name: str) -> Iterator[np.ndarray]:
    """Vectors of a side in the order of its places, some at a time."""
    if name not in given.rows:
        yield from (matrix(read_part(run.store, part, ["embedding"])["embedding"]) for part in given.parts[name])
        return
    chosen, at = _chosen(given, name), 0
    for part in given.rows[name].tables(["passage_id", "embedding"]):
        some = chosen[at : at + len(part)]
        if some.any():
            yield _units(part, given.values["width"])[: len(some)][some]
        at += len(part)


def _units(part: pa.Table, width: int) -> np.ndarray:
    """Embeddings of a part as vectors of length 1.

    Raises:
        InputError: one of them has another width, is not finite or not of length 1.
    """
    widths = pc.fill_null(pc.list_value_length(part["embedding"]), 0).to_numpy()
    _refuse(part, widths != width, f"is not of {width} numbers; use one model")
    vectors = matrix(part["embedding"])
    lengths = np.linalg.norm(vectors, axis=1)
    _refuse(part, ~np.isfinite(lengths), "holds NaN or infinity; encode the passage again")
    _refuse(part, abs(lengths - 1) > _UNIT_WITHIN, "is not of length 1; normalise the model's output")
    return vectors / lengths[:, None]


def _refuse(part: pa.Table, bad: np.ndarray, why: str) -> None:
    if bad.any():
        raise InputError(f"the embedding of passage {part['passage_id'][int(bad.argmax())]} {why}")
