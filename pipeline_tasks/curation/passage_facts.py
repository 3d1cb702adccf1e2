"""What there is to know of passages beside their texts, a shard at a time, and of those that a block of queries names.

Nobody holds the ids of a corpus: whoever wants to know of some passages walks through the facts of all, a shard after
the other, and keeps those of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import WHOLE_BYTES
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.curation.id_table import HashTable, text_hashes
from pipeline_tasks.curation.splits import split_numbers

COLUMNS = {"passages": ("passage_id", "text"), "pairs": ("positive_id", "positive")}
"""Passages of the corpus, then generated positives: the inputs that hold them, and the columns of id and text."""
_FACTS = pa.schema([
    ("passage_id", pa.string()), ("hash", pa.uint64()), ("split", pa.int8()), ("text", pa.uint64()),
    ("part", pa.uint64()), ("row", pa.int32()),
])  # fmt: skip


def facts_of(inputs: Inputs, most_rows: int, run: PartitionedRun) -> list[Part]:
    """Facts of all passages and generated positives, a table for each shard."""
    shards = pieces({name: inputs[name] for name in COLUMNS}, most_rows)
    return [part for (part,) in run.spread(tell_passages, [Partition(shard) for shard in shards])]


def tell_passages(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of every passage of a shard: id and hash, split, hash of its text, and where it lies: see :func:`part_number`."""
    versions = [(given.rows[name].version, *COLUMNS[name]) for name in COLUMNS]
    jobs = [(*one, number) for one in versions for number in range(len(one[0].manifest.parts))]
    with ThreadPoolExecutor(settings().threads) as pool:
        facts = pa.concat_tables([_FACTS.empty_table(), *pool.map(_facts_of_part, jobs)]).combine_chunks()
    run.count("passages_read", len(facts))
    yield facts


def _facts_of_part(job: tuple[Version, str, str, int]) -> pa.Table:
    version, key, text, number = job
    part, rows = version.manifest.parts[number], version.part(number, [key, text, "split"])
    stored = np.delete(np.arange(part.rows, dtype=np.int32), version.removed.rows(number))
    columns = [
        rows[key], text_hashes(rows[key]), split_numbers(rows["split"], version), text_hashes(rows[text]),
        np.full(len(rows), part_number(part), np.uint64), stored,
    ]  # fmt: skip
    return pa.table(columns, schema=_FACTS)


def part_number(part: Part) -> int:
    """The first 16 digits of its sha256: the name of a part in tables."""
    return int(part.sha256[:16], 16)


@dataclass(frozen=True)
class Facts:
    """What is known of some passages, by number; of an id that comes twice the first passage counts.

    Attributes:
        ids: id of each; null where no passage has the hash.
        splits: place of its split, int8; -1 where there is none.
        texts: hash of its text, uint64: equal for equal texts.
        parts, rows: where it lies, uint64 and int32: see :func:`part_number`, and the row of that part.
    """

    ids: pa.Array
    splits: np.ndarray
    texts: np.ndarray
    parts: np.ndarray
    rows: np.ndarray

    @classmethod
    def look_up(cls, store: Store, facts: Sequence[Part], table: HashTable) -> Facts:
        """What the tables of :func:`facts_of` tell of these hashes of ids; one of them is in memory at a time.

        Raises:
            InputError: two ids have the same hash.
        """
        n = len(table.known)
        kinds = {"split": np.int8, "text": np.uint64, "part": np.uint64, "row": np.int32}
        found = {name: np.zeros(n, kind) for name, kind in kinds.items()}
        place, names, at = np.full(n, -1, np.int64), [pa.array([], pa.string())], 0
        for shard in facts:
            rows = read_part(store, shard).combine_chunks()
            numbers = table.numbers(rows["hash"].to_numpy())
            hits = np.flatnonzero(numbers >= 0)
            ids, numbers = one_array(rows["passage_id"]).take(pa.array(hits)), numbers[hits]
            new = np.flatnonzero(place[numbers] < 0)
            place[numbers[new[::-1]]] = at + new[::-1]  # backwards, so that of an id that comes twice the first is left
            first = new[place[numbers[new]] == at + new]
            for name, values in found.items():
                values[numbers[first]] = rows[name].to_numpy()[hits[first]]
            names.append(ids)
            at += len(ids)
            if len(first) < len(ids):
                _refuse_collisions(pa.concat_arrays(names).take(pa.array(place[numbers])), ids)
        found["split"][place < 0] = -1
        ids = pa.concat_arrays(names).take(pa.array(place, mask=place < 0))
        return cls(ids, found["split"], found["text"], found["part"], found["row"])


def _refuse_collisions(known: pa.Array, ids: pa.Array) -> None:
    other = pc.not_equal(known, ids).to_numpy(zero_copy_only=False)
    if other.any():
        one, two = (some[int(other.argmax())].as_py() for some in (known, ids))
        raise InputError(f"the ids {one} and {two} have the same hash of 64 bits; give one of the passages another id")


@dataclass(frozen=True)
class Places:
    """Where some passages lie, each place once, in the order of the parts.

    Attributes:
        parts: places in the list of parts that hold them, rising.
        rows: rows of each of these parts, rising.
        numbers: for each passage its number among these places, int32.
    """

    parts: list[int]
    rows: list[np.ndarray]
    numbers: np.ndarray

    @classmethod
    def of(cls, order: dict[int, int], numbers: np.ndarray, rows: np.ndarray) -> Places:
        """Those of passages that lie in the parts of these numbers; ``order`` says which part comes when.

        Shapes: numbers and rows [n].
        """
        distinct, code = np.unique(numbers, return_inverse=True)
        at = np.array([order[number] for number in distinct.tolist()], np.int64)
        where, places = np.unique((at[code] << 32) + rows, return_inverse=True)
        held, starts = np.unique(where >> 32, return_index=True)
        return cls(held.tolist(), np.split(where & 0xFFFFFFFF, starts[1:]), places.astype(np.int32))


def read_texts(
    store: Store, parts: Mapping[str, Sequence[Part]], *asked: tuple[np.ndarray, np.ndarray]
) -> list[tuple[np.ndarray, pa.Array]]:
    """The texts of passages by where they lie, each place once, in the order of the parts; no other text is kept.

    Args:
        store: holds the parts.
        parts: by name as in :data:`COLUMNS`.
        asked: numbers of parts, and rows, of some passages and of some others.

    Shapes:
        numbers and rows [n]; returns for each the number of its text, int32 [n], and the texts.
    """
    listed = [(part, COLUMNS[name][1]) for name in COLUMNS for part in parts[name]]
    order: dict[int, int] = {}
    for at, (part, _) in enumerate(listed):
        order.setdefault(part_number(part), at)
    found = [Places.of(order, *one) for one in asked]
    wanted = sorted({at for places in found for at in places.parts})
    store.bring(part.key for part, _ in map(listed.__getitem__, wanted) if part.size_bytes <= WHOLE_BYTES)
    rows_of = [dict(zip(places.parts, places.rows, strict=True)) for places in found]

    def read(at: int) -> list[pa.Array]:
        texts = read_part(store, listed[at][0], [listed[at][1]]).column(0)
        none = np.empty(0, np.int64)
        return [texts.take(pa.array(rows.get(at, none))).combine_chunks() for rows in rows_of]

    with ThreadPoolExecutor(settings().threads) as pool:
        chunks = [*zip(*pool.map(read, wanted), strict=True)] or [() for _ in asked]
    texts = []
    while chunks:  # one column after the other is joined, and let go of
        texts.append(pa.concat_arrays([pa.array([], pa.string()), *chunks.pop(0)]))
    return [(places.numbers, column) for places, column in zip(found, texts, strict=True)]
