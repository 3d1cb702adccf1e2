"""A folder of a bucket on this machine, for what reads files and not objects."""

from __future__ import annotations

import glob
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.protocol import checked_key

SCHEME = "s3://"
_LEFT_S = 24 * 3600.0


def bring_folder(address: str, cache: Path, wanted: Callable[[str], bool], what: str) -> Path:
    """A copy below ``cache`` of the ``wanted`` files of ``s3://bucket/prefix``, whole, as they are there now.

    It is made once for what lies there: other keys, sizes or times give another one. Endpoint, region and keys are
    found by boto3 as for a store.

    Args:
        address: the folder.
        cache: where copies are kept; they may be deleted.
        wanted: whether a file is, by its path below the folder.
        what: what these are called, where there are none.

    Raises:
        InputError: nothing that is wanted is there, or the address has no prefix.
        TransientError: the server does not answer, or a file went while it was brought.
    """
    above, _, name = address.removeprefix(SCHEME).rstrip("/").rpartition("/")
    if not above.strip("/"):
        raise InputError(f"{address!r} names no folder of a bucket: give {SCHEME}bucket/prefix")
    bucket = Bucket(SCHEME + above)
    found = [(entry.key.removeprefix(f"{name}/"), entry) for entry in bucket.below(name)]
    here = sorted(((file, entry) for file, entry in found if wanted(file)), key=lambda pair: pair[0])
    for file, entry in here:
        try:
            checked_key(entry.key)
        except InputError as error:
            raise InputError(f"{address}: {file!r} has a name that no file can have: rename or remove it") from error
    if not here:
        raise InputError(f"{address} has none of {what}; {len(found):,} other files lie there")
    state = [[file, entry.size_bytes, entry.modified] for file, entry in here]
    copy = cache / "folders" / short_id(address, state) / name
    if not copy.is_dir():
        _drop_left(copy)
        fresh = copy.with_name(f".{name}.{uuid4().hex}")  # of this call: in containers all processes are number 1
        try:
            for file, entry in here:
                (fresh / file).parent.mkdir(parents=True, exist_ok=True)
                if bucket.download(entry.key, fresh / file) is None:
                    raise TransientError(f"{address}: {file} was deleted while it was brought; try again")
            _moved(fresh, copy)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return copy


def _drop_left(copy: Path) -> None:
    """Drop what calls left that were killed long ago."""
    for left in copy.parent.glob(f".{glob.escape(copy.name)}.*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - _LEFT_S:
                shutil.rmtree(left, ignore_errors=True)


def _moved(fresh: Path, copy: Path) -> None:
    try:
        fresh.rename(copy)
    except OSError:
        if not copy.is_dir():  # no other process was first
            raise
