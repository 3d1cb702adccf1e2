"""A guard for datasets that grow: one bad list, or a site that answers 404 for a day, must not empty a corpus."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.step import GrowthParams
from pipeline_tasks.core.versions import Version

log = logging.getLogger(__name__)
FEW_ROWS = 10
_SHOWN = 5
_IDS = ("_id", "_sha256")


def check_withdrawals(job: Job, run: Run, live: int, new: int) -> None:
    """Let a body withdraw the share ``max_withdrawn`` of the version before, and ten rows whatever their share.

    That nothing is left takes ``max_withdrawn`` of 1, however few rows there are. A replaced row counts as kept.

    Args:
        job: what runs.
        run: what its body has withdrawn.
        live: rows of the version before.
        new: rows that the body yielded.

    Raises:
        InputError: more would go; the message names the first of them, and says what the body warns of.
    """
    if not isinstance(job.params, GrowthParams):
        raise InputError(f"{job.step.name}: a dataset that grows has a limit; derive its parameters from GrowthParams")
    limit, gone = job.params.max_withdrawn, sorted(run.withdrawn - run.replaced)
    nothing_left = len(run.withdrawn) == live and not new
    if not (run.previous and gone):
        return
    what = f"{len(gone):,} of the {live:,} rows of {run.previous.manifest.ref}"
    if limit == 1 or (len(gone) <= max(FEW_ROWS, limit * live) and not nothing_left):
        if run.caution:
            log.warning("%s withdraws %s: %s", job.step.name, what, run.caution)
        return
    named = ", ".join(_describe_rows(run.previous, job.step.writes, gone[:_SHOWN])) if job.step.writes else ""
    more = f" and {len(gone) - _SHOWN:,} more" if len(gone) > _SHOWN else ""
    caution = f"{run.caution}; " if run.caution else ""
    raise InputError(
        f"{job.step.name} would withdraw {what}, more than max_withdrawn={limit:g} allows: {named}{more}; {caution}"
        "see what it read, or let them go by --set max_withdrawn=1"
    )


def _describe_rows(previous: Version, schema: RowSchema, keys: list[str]) -> list[str]:
    """Each key with the first text of its row that is no id, such as an address, where there is one."""
    texts = [c.name for c in schema.columns if c.type == pa.string() and not c.name.endswith(_IDS)]
    columns = [schema.key, *(name for name in texts[:1] if name != schema.key)]
    rows: dict[str, str] = {}
    for table in previous.parts(columns):
        for row in table.filter(pc.is_in(table[schema.key], pa.array(keys))).to_pylist():
            rows[row[schema.key]] = " ".join(str(row[name]) for name in columns)
    return [rows[key] for key in keys]
