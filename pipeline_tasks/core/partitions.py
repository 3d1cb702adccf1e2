"""Partitions: how a step computes over whole datasets in pieces that fit a processor's memory.

The body of a partitioned step computes nothing of size itself. It says what the pieces are, calls a function on each of
them (:meth:`PartitionedRun.spread`), hands the tables that they give on to the next function, and yields what the last
one gave, or tables that it puts together of small things. Where rows have to move, a function gives one table per
partition of the next round, by the hash of a key or by range; the next function reads its table of every piece, in the
order of the pieces. So what is made does not depend on which piece was done when, where, or by which run.

A piece is memoised as a part of a map step is: by the function's name, the code version of the step, and what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.engines import Engine
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.failure import counted
from pipeline_tasks.core.execution.memo import Record, memo_key
from pipeline_tasks.core.ids import digest, seed_of
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.parts import write_passing, write_rows
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import space_beside
from pipeline_tasks.core.versions import Version, read_part


@dataclass(frozen=True)
class Rows:
    """Live rows of some neighbouring parts of a version.

    Attributes:
        version: holds these parts and no others.
    """

    version: Version

    @classmethod
    def between(cls, version: Version, first: int, last: int) -> Rows:
        """Those of the parts ``first`` <= i < ``last``."""
        some = version.manifest.model_copy(update={"parts": version.manifest.parts[first:last], "removals": []})
        return cls(Version(version.store, some, version.schema, version.removed.between(first, last)))

    def __len__(self) -> int:
        return sum(part.rows for part in self.version.manifest.parts) - len(self.version.removed)

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """The rows, a table for each part."""
        return self.version.parts(columns)

    @cached_property
    def digest(self) -> str:
        """Equal for equal rows: of every part its sha256 and which of its rows are removed."""
        removed = self.version.removed
        parts = enumerate(self.version.manifest.parts)
        return digest([[part.sha256, removed.rows(index).tolist()] for index, part in parts])


def pieces(versions: Mapping[str, Version], most_rows: int) -> list[dict[str, Rows]]:
    """All rows of ``versions``, one after another, in pieces of whole parts with at most ``most_rows`` where they can.

    A piece holds rows of one version, and names the others with none. There is always one. A refresh, which adds parts
    at the end of a version, leaves all pieces but the last of that version as they are, and those before a part that
    goes with its last row.
    """
    found: list[dict[str, Rows]] = []
    nothing = {name: (0, 0) for name in versions}
    for name, version in versions.items():
        first, room = 0, most_rows
        for index, part in enumerate(version.manifest.parts):
            if part.rows > room and room < most_rows:
                found.append(_piece(versions, nothing | {name: (first, index)}))
                first, room = index, most_rows
            room -= part.rows
        if first < len(version.manifest.parts):
            found.append(_piece(versions, nothing | {name: (first, len(version.manifest.parts))}))
    return found or [_piece(versions, nothing)]


def _piece(versions: Mapping[str, Version], held: Mapping[str, tuple[int, int]]) -> dict[str, Rows]:
    return {name: Rows.between(version, *held[name]) for name, version in versions.items()}


def ranges_of(hashes: np.ndarray, n: int) -> np.ndarray:
    """Which of ``n`` equal ranges each hash is in: what has one hash meets in one. Shapes: [m] uint64; returns [m]."""
    return ((hashes >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)


def dealt(table: pa.Table, numbers: np.ndarray, n: int) -> Iterator[pa.Table]:
    """The rows of ``table`` whose number is 0, those whose number is 1, and so on to ``n`` - 1, in their order."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers, np.arange(n + 1), sorter=order).tolist()
    for first, last in pairwise(bounds):
        yield table.take(pa.array(order[first:last]))


@dataclass(frozen=True)
class Partition:
    """All that one call of a function reads; nothing else has a say in what it gives.

    Attributes:
        rows: of the step's inputs.
        parts: tables that earlier calls gave.
        values: numbers and texts, those of the parameters that count here among them.
        beside: what has no say, and is no part of the key: the place of files that ``values`` identify.
    """

    rows: Mapping[str, Rows] = field(default_factory=dict)
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)

    def key(self, job: Job, work: Work) -> str:
        """Identity of the call, as a part of a map step has one."""
        rows = {name: given.digest for name, given in self.rows.items()}
        parts = {name: [part.sha256 for part in given] for name, given in self.parts.items()}
        return digest(job.step.name, job.step.version, work.__name__, rows, parts, dict(self.values))


Work = Callable[[Partition, Run], Iterable[pa.Table]]
"""A function of a module: gets a partition, and a run for counters, rejects, seed and ``store``; gives tables."""


@dataclass
class PartitionedRun(Run):
    """What the body of a step over whole datasets is given; what spreads is for partitioned ones.

    Attributes:
        engine: computes partitions.
        passing: keys of the memo that nobody needs again once the version is made.
        final: sha256 of what may be a part of the version.
    """

    engine: Engine | None = None
    passing: list[str] = field(default_factory=list)
    final: set[str] = field(default_factory=set)

    def spread(
        self, work: Work, partitions: Sequence[Partition], *, lasting: bool = True, final: bool = False
    ) -> list[list[Part]]:
        """Run ``work`` on every partition, in as many processes as there are, and store the tables that it yields.

        One list for each partition, in order, with a part for each table; what the memo has is not computed.

        Args:
            work: a function of a module, so that other processes find it.
            partitions: what each call reads.
            lasting: remember what they gave for later versions, too; else until this one is made.
            final: the tables are parts of the version, and must be rows of its schema.
        """
        if self.job is None or self.engine is None:
            raise InputError(f"{self.label} has no engine; run it as a step")
        keys = [partition.key(self.job, work) for partition in partitions]
        records = _lookup(self.store, keys)
        todo = [place for place, key in enumerate(keys) if key not in records]
        self.count("partitions_reused", len(keys) - len(todo))
        self.count("partitions_built", len(todo))
        mark = self.scratch / work.__name__
        mark.write_bytes(b"." * (len(keys) - len(todo)))
        compute = partial(_compute, self.store, self.job, work, self.job.step.writes if final else None)
        with self.progress(len(todo), f"partitions of {work.__name__}") as progress, mark.open("ab", 0) as finished:
            for at, record in self.engine.each(compute, [(keys[place], partitions[place]) for place in todo]):
                records[keys[todo[at]]] = record
                self.counters.update(record.counters)  # type: ignore[arg-type]
                finished.write(b".")
                progress.advance()
        if not lasting:
            self.passing += keys
        rejects = (records[key].rejects for key in dict.fromkeys(keys))
        self._rejected += [read_part(self.store, part) for part in rejects if part]
        if final:
            self.final.update(part.sha256 for key in keys for part in records[key].tables)
        return [records[key].tables for key in keys]

    def remembers(self, work: Work, partition: Partition) -> bool:
        """Whether what ``work`` gives for this is there."""
        return self.job is not None and bool(_lookup(self.store, [partition.key(self.job, work)]))

    def leave(self, words: Sequence[str], tables: Sequence[Part]) -> None:
        """Keep tables for later runs of the step, which find them by the same words; a hint, which may get lost."""
        first, *further = tables
        record = Record(output=first, further=further, partial=True, rejects=None, skipped={}, counters={})
        self.store.replace(memo_key(self._key_of(words)), record.model_dump_json().encode())

    def left(self, named: Sequence[Sequence[str]]) -> list[list[Part]]:
        """What earlier runs have left by each of these words; nothing where it got lost."""
        keys = list(map(self._key_of, named))
        records = _lookup(self.store, keys)
        return [records[key].tables if key in records else [] for key in keys]

    def give_up(self, named: Iterable[Sequence[str]]) -> None:
        """What was left by these words goes, once the version is made; the garbage collection drops its parts."""
        self.passing += map(self._key_of, named)

    def _key_of(self, words: Sequence[str]) -> str:
        if self.job is None:
            raise InputError(f"{self.label} leaves nothing for others; run it as a step")
        return digest(self.job.step.name, self.job.step.version, "left", *words)

    def forget_passing(self) -> None:
        """Give up what only a killed run would have needed; the garbage collection drops their parts."""
        self.store.delete_all(sorted({memo_key(key) for key in self.passing}))


def _lookup(store: Store, keys: Iterable[str]) -> dict[str, Record]:
    """Key -> record, of those that are there with all that they name."""
    read = store.read_all(memo_key(key) for key in dict.fromkeys(keys))
    found = {key: record for key, data in read if (record := Record.read(data))}
    there = store.present(made.key for record in found.values() for made in record.made)
    whole = {key: record for key, record in found.items() if there.issuperset(made.key for made in record.made)}
    return {key.removeprefix("memo/").removesuffix(".json"): record for key, record in whole.items()}


def _compute(store: Store, job: Job, work: Work, schema: RowSchema | None, given: tuple[str, Partition]) -> Record:
    """Call ``work``, store its tables and rejects, then the record; what another process made meanwhile is taken."""
    key, partition = given
    with store.alone(key):
        if found := _lookup(store, [key]).get(key):
            return found.model_copy(update={"counters": {}})
        run = Run(store, Inputs({}), seed_of(key), f"{job.step.name} {work.__name__}", key, job=job)
        with counted(run.counters), space_beside(store):
            tables = iter(work(partition, run))
            written = map(schema.conform, tables) if schema else tables
            parts = list(map(partial(write_rows if schema else write_passing, store), written))
        if not parts:
            raise InputError(f"{job.step.name}: {work.__name__} gave no table; let it yield one, with no rows")
        job.check_unchanged()
        rejects = run.rejects_table()
        record = Record(
            output=parts[0],
            further=parts[1:],
            partial=True,
            rejects=write_rows(store, rejects) if rejects.num_rows else None,
            skipped={},
            counters=dict(run.counters),
        )
        store.replace(memo_key(key), record.model_dump_json().encode())
    store.drop_scratch(key)
    pa.default_memory_pool().release_unused()  # else a process holds what its largest partitions of each kind held
    return record
