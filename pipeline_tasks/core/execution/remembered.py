"""What a step must not forget when versions go: one table beside them all, which no garbage collection drops.

It is the step's own, for its code version and its parameters. Unlike what is left for
:mod:`~pipeline_tasks.core.execution.earlier`, what it says may decide rows, of a dataset that grows alone: its versions
hang on what came before. An erasure does not look into it, so it holds no text, no address and no id, only hashes of
these.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.run import Run

log = logging.getLogger(__name__)
PREFIX = "remembered"
_DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)
"""A table that cannot be read: in its footer, or in its pages, which have checksums."""


def remember(run: Run, table: pa.Table) -> None:
    """Keep ``table``, whose first column says of what each row is, in place of what is :func:`remembered`."""
    run.store.replace(_key(run), _written(table))


def remembered(run: Run) -> pa.Table | None:
    """What the last run of the step with these parameters kept; None, with a word, where it cannot be read."""
    data = run.store.read(key := _key(run))
    if data is None:
        return None
    try:
        return _read(data)
    except _DAMAGED as error:
        log.warning("%s cannot be read, and %s knows what the last version tells alone: %s", key, run.label, error)
        return None


def merge_remembered(key: str, first: bytes, second: bytes | None) -> bytes:
    """What two stores remember as ``key``; of what both know, what the first says.

    Raises:
        InputError: one of them cannot be read.
    """
    if second is None or second == first:
        return first
    try:
        known, more = map(_read, (first, second))
        new = pc.invert(pc.is_in(more[0], known[0].combine_chunks()))
        return _written(pa.concat_tables([known, more.filter(new)]))
    except _DAMAGED as error:
        raise InputError(f"{key} cannot be read ({error}): what one store remembers is not in the other") from error


def _read(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table.sort_by(table.column_names[0]), sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue().to_pybytes()


def dataset_of(key: str) -> str:
    """The dataset whose step keeps a table as ``key``."""
    return key.removeprefix(f"{PREFIX}/").rpartition("/")[0]


def _key(run: Run) -> str:
    """Where the table is kept, by the dataset that the step grows.

    Raises:
        InputError: the body was called by itself.
    """
    if run.job is None:
        raise InputError(f"{run.label} remembers nothing for others; run it as a step")
    job = run.job
    return f"{PREFIX}/{job.dataset}/{digest(job.step.name, job.step.version, job.identity)}.parquet"
