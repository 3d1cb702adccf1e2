"""What a step body is given besides its rows: rejects, counters, seed, progress, a folder that survives a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.growth_requests import history, requests
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.progress import Meter, meter
from pipeline_tasks.core.schema import REJECTS
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, whole

_LONGEST_DETAIL = 2000


class Inputs:
    """The input versions of one run, by input name."""

    def __init__(self, versions: dict[str, list[Version]]) -> None:
        self._versions = versions

    def __contains__(self, name: str) -> bool:
        return bool(self._versions.get(name))

    def __getitem__(self, name: str) -> Version:
        """The one version read as ``name``.

        Raises:
            InputError: several versions, or none, were given.
        """
        found = self.each(name)
        if len(found) != 1:
            raise InputError(f"input {name!r} holds {len(found)} versions, one was expected; check --input {name}=")
        return found[0]

    def each(self, name: str) -> list[Version]:
        """All versions read as ``name``, in the order given."""
        return self._versions.get(name, [])

    def by_last_name(self, name: str) -> dict[str, Version]:
        """Versions keyed by the last component of their dataset's name, e.g. the model of ``rankings/<model>``."""
        return {v.last_name: v for v in self.each(name)}

    def items(self) -> Iterator[tuple[str, list[Version]]]:
        """Input name and its versions."""
        return iter(self._versions.items())


@dataclass
class Run:
    """One execution of a body: over one part (map) or over whole inputs (reduce).

    Attributes:
        store: where paid answers go; datasets are written by the runner alone.
        inputs: all inputs; a map body finds its side inputs here.
        seed: from step, parameters and part; never from the clock.
        label: what progress lines are called.
        scratch_name: names the folder for work in progress.
        part: of the first input, that a map body is given the rows of; None in a reduce step.
        job: what it is a part of; None where a body is called by itself.
        previous: the version that a growing dataset grows from; None where there is none.
        responses: paid answers that a map body used and its rows do not name, by id: what its part cost.
        withdrawn: keys of its rows that the next version does without.
        replaced: those of them that a new row stands for.
        caution: why rows may be missing this time; shown when such rows are withdrawn, or when that is refused.
    """

    store: Store
    inputs: Inputs
    seed: int
    label: str
    scratch_name: str
    previous: Version | None = None
    part: Part | None = None
    job: Job | None = None
    responses: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    caution: str = ""
    counters: Counter[str] = field(default_factory=Counter)
    _rejects: list[dict] = field(default_factory=list)
    _rejected: list[pa.Table] = field(default_factory=list)

    def reject(self, row_id: str, reason: str, detail: str = "") -> None:
        """Refuse a row: it is kept in ``<dataset>/rejects`` with its reason, and the run goes on."""
        texts = {"row_id": row_id, "reason": reason, "detail": detail[:_LONGEST_DETAIL]}
        self._rejects.append({name: text.encode("utf-8", "replace").decode() for name, text in texts.items()})

    def reject_all(self, row_ids: pa.Array, reason: str, details: pa.Array) -> None:
        """Refuse many rows for one reason, each with its own detail."""
        reasons = pa.repeat(pa.scalar(reason), len(row_ids))
        details = pc.utf8_slice_codeunits(details, 0, _LONGEST_DETAIL)
        self._rejected.append(pa.table([row_ids, reasons, details], schema=REJECTS.arrow))

    def withdraw(self, key: str, *, replaced: bool = False) -> None:
        """Leave a row of ``previous`` out of the next version of a growing dataset; older versions keep it.

        One that is ``replaced``, because the body yields what it became, is no loss: any number of rows may change.
        """
        self.withdrawn.add(key)
        if replaced:
            self.replaced.add(key)

    def requests(self) -> Iterator[dict[str, Any]]:
        """Parameters of the runs that led to ``previous``, the last one first."""
        return history(self.store, self.previous.manifest) if self.previous else iter(())

    def read_before(self, name: str) -> list[Version]:
        """Input ``name`` of the last run that led to ``previous``; none where it was dropped since, or is not known."""
        last = requests(self.store, self.previous.manifest)[-1] if self.previous else None
        refs = [Ref.parse(ref) for ref in last.inputs.get(name, [])] if last else []
        there = all(whole(self.store, ref) for ref in refs)
        return [Version.open(self.store, ref) for ref in refs] if there else []

    def count(self, name: str, n: float = 1) -> None:
        """Add ``n`` to counter ``name``; counters end up in the lineage."""
        self.counters[name] += n  # type: ignore[assignment]

    def progress(self, total: int, unit: str = "rows") -> AbstractContextManager[Meter]:
        """A meter for ``total`` units of work inside the body."""
        return meter(self.label, total, unit)

    @property
    def scratch(self) -> Path:
        """A local folder of this very piece of work: checkpoints left here are found again after a kill."""
        return self.store.scratch(self.scratch_name)

    def rejects_table(self) -> pa.Table:
        """All rejects so far, in a stable order."""
        rows = pa.concat_tables([REJECTS.table(self._rejects), *self._rejected])
        return rows.sort_by([("row_id", "ascending"), ("reason", "ascending")])
