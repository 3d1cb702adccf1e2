"""Labels within the cap of their origin, and as rows with texts: partitions of ``mutual_agreement``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import lowest
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.curation.blocks import queries_of
from pipeline_tasks.curation.passage_facts import COLUMNS, read_texts
from pipeline_tasks.curation.text_parts import own_rows, queries_of_blocks

_UNCAPPED = ("dm", "")
_CAPS = pa.schema([("origin", pa.string()), ("beyond", pa.uint64())])
_COUNTS = pa.schema([("counter", pa.string()), ("n", pa.int64())])


def find_caps(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of each origin with more kept queries than its cap the lowest hash of an id that is one too many.

    It holds as many hashes of each origin as its cap, and a block's.

    Raises:
        InputError: a cap is of an origin that no query has.
    """
    caps, found, seen = dict[str, int](), dict[str, np.ndarray](), set[str]()
    for part in given.parts["asked"]:
        table = read_part(run.store, part, ["origin", "hash", "kept"])
        kept = table.filter(table["kept"])
        seen.update(pc.unique(table["origin"]).to_pylist())
        for origin in pc.unique(kept["origin"]).to_pylist():
            if (most := _cap(given, origin)) is not None:
                caps[origin] = most
                hashes = kept["hash"].filter(pc.equal(kept["origin"], origin)).to_numpy()
                found[origin] = lowest(np.concatenate([found.get(origin, hashes[:0]), hashes]), most + 1)
    if unknown := sorted(given.values["caps"].keys() - seen):
        raise InputError(
            f"caps has {unknown[0]!r}, and no query is of that origin; there are {', '.join(sorted(seen))}: "
            "correct it, or leave it out"
        )
    capped = sorted(origin for origin, hashes in found.items() if len(hashes) > caps[origin])
    yield pa.table([capped, [found[origin].max() for origin in capped]], schema=_CAPS)


def _cap(given: Partition, origin: str) -> int | None:
    """How many queries of an origin are kept at most; None where it is the domain, and not capped."""
    return given.values["caps"].get(origin, None if origin in _UNCAPPED else given.values["most"])


def cap(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Which kept queries of a block are within the cap, the parts that hold their texts, and counters.

    Rejects: ``over_cap``.
    """
    (votes,), (asked,), (caps,) = (given.parts[name] for name in ("votes", "asked", "caps"))
    everyone = read_part(run.store, asked)
    kept = everyone.filter(everyone["kept"])
    over = np.zeros(len(kept), bool)
    for limit in read_part(run.store, caps).to_pylist():
        mine = pc.equal(kept["origin"], limit["origin"]).to_numpy()
        over |= mine & (kept["hash"].to_numpy() >= np.uint64(limit["beyond"]))
    found = read_part(run.store, votes, ["query", "part"])
    if over.any():
        ids = queries_of(given, ["query_id"])["query_id"].combine_chunks().take(found["query"].filter(pa.array(over)))
        origins = kept["origin"].filter(pa.array(over)).to_pylist()
        details = [f"beyond {_cap(given, origin)} pairs of its origin, by the hash of its id" for origin in origins]
        run.reject_all(ids.combine_chunks(), "over_cap", pa.array(details))
    rows = np.flatnonzero(~over)
    yield pa.table({"row": rows})
    yield pa.table({"part": np.unique(found["part"].to_numpy()[rows])})
    yield _counts(everyone, kept.take(pa.array(rows)))


def _counts(everyone: pa.Table, kept: pa.Table) -> pa.Table:
    """Queries kept by origin and intent, those of which none is among them, and those that keep their positive."""
    rows = [("own_positives", pc.sum(kept["own"]).as_py() or 0)]
    for name in ("origin", "intent"):
        n = {found["values"]: found["counts"] for found in pc.value_counts(kept[name]).to_pylist()}
        for value in pc.unique(everyone[name]).to_pylist():
            rows.append((f"kept_of_{name}/{value or 'unknown'}", n.get(value, 0)))
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=_COUNTS)


def write_labels(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Labels of some neighbouring queries that are kept, with the texts of their positives."""
    both = zip(given.parts["votes"], given.parts["rows"], strict=True)
    labels = [read_part(run.store, votes).take(read_part(run.store, rows)["row"]) for votes, rows in both]
    blocks = queries_of_blocks(given, ["query_id", "intent", "query", "passage_id", "split"])
    names = own_rows(given, [rows.take(found["query"]) for rows, found in zip(blocks, labels, strict=True)])
    found = own_rows(given, labels)
    held = {name: given.parts[name] for name in COLUMNS}
    ((places, texts),) = read_texts(run.store, held, (found["part"].to_numpy(), found["row"].to_numpy()))
    run.count("texts_read", len(texts))
    yield pa.table({
        **{name: names[name] for name in ("query_id", "intent", "query", "split")},
        "source_passage_id": names["passage_id"],
        "positive": texts.take(pa.array(places)),
        **{name: found[name] for name in ("positive_id", "votes", "best_model")},
    })  # fmt: skip
