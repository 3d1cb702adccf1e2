"""What a run of a step would do, found before it costs anything: nothing, some parts, or all of it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.core.execution.memo import missing
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest


@dataclass(frozen=True)
class Todo:
    """What there is to do for a job.

    Attributes:
        job: the step with its inputs.
        made: its version, where that is there.
        n_parts: of a map step's first input.
        n_new: those of them that no memo record answers.
        rows: that it would work on: of a map step in these parts, those removed from some of them too; of any other in
            all inputs.
        rows_read: of the first input of a map step, of any other of all inputs.
        size_bytes: of the parts that it would open.
    """

    job: Job
    made: Manifest | None
    n_parts: int = 0
    n_new: int = 0
    rows: int = 0
    rows_read: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, store: Store, job: Job) -> Todo:
        """Look into the store; nothing is computed, and nothing is written.

        Raises:
            InputError: a run would be refused, see :meth:`StepParams.check_versions` and :meth:`Job.refuse_setback`.
        """
        job.params.check_versions(Inputs(job.open(store)))
        inputs = {name: [load_manifest(store, ref) for ref in refs] for name, refs in job.inputs.items()}
        everything = [manifest for found in inputs.values() for manifest in found]
        rows = sum(manifest.rows for manifest in everything)
        made = job.made(store)
        if not made:
            job.refuse_setback(store)
        if made or job.step.kind != "map":
            size = 0 if made else sum(part.size_bytes for m in everything for p in m.parts for part in p.objects)
            found = load_manifest(store, made) if made else None
            return cls(job, found, rows=0 if made else rows, rows_read=rows, size_bytes=size)
        source = inputs[next(iter(job.step.reads))][0]
        todo = [source.parts[index] for index in missing(store, job)]
        beside = [part for manifest in everything if manifest is not source for part in manifest.parts] if todo else []
        return cls(
            job,
            None,
            n_parts=len(source.parts),
            n_new=len(todo),
            rows=min(source.rows, sum(part.rows for part in todo)),
            rows_read=source.rows,
            size_bytes=sum(part.size_bytes for whole in (*todo, *beside) for part in whole.objects),
        )

    @property
    def source(self) -> Ref:
        """What a map step maps over."""
        return self.job.inputs[next(iter(self.job.step.reads))][0]

    def line(self) -> str:
        """What a run would do, in a line."""
        job = self.job
        if self.made:
            return f"{self.made.ref} is there: nothing to do"
        if job.step.kind != "map":
            return f"{job.dataset} would be made anew, from: {job.input_names or 'nothing'}"
        new = f"{self.n_new} of {self.n_parts} parts, {self.rows:,} rows of {self.source} are new"
        return f"{job.ref} would be made: {new}"

    def short(self) -> str:
        """In a few words."""
        if self.made:
            return "nothing: it is there"
        if self.job.step.kind == "map":
            return f"{self.n_new} of {self.n_parts} parts"
        if self.job.step.kind == "partitioned":
            return "anew, but for known partitions"
        return "looks outside" if self.job.step.grows else "anew"
