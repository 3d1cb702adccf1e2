"""A folder of a bucket on this machine, for what reads files and not objects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.protocol import checked_key

SCHEME = "s3://"


def bring_folder(address: str, cache: Path, wanted: Callable[[str], bool]) -> Path:
    """A copy below ``cache`` of the ``wanted`` files of ``s3://bucket/prefix``, whole, as they are there now.

    It is made once for what lies there: other keys, sizes or times give another one. Endpoint, region and keys are
    found by boto3 as for a store.

    Raises:
        InputError: nothing that is wanted is there, or the address has no prefix.
        TransientError: the server does not answer.
    """
    above, _, name = address.rstrip("/").rpartition("/")
    if not above.removeprefix(SCHEME).strip("/"):
        raise InputError(f"{address!r} names no folder of a bucket: give {SCHEME}bucket/prefix")
    bucket = Bucket(above)
    found = [(checked_key(entry.key).removeprefix(f"{name}/"), entry) for entry in bucket.below(name)]
    here = sorted(((file, entry) for file, entry in found if wanted(file)), key=lambda pair: pair[0])
    if not here:
        raise InputError(f"{address} holds none of the files that are looked for; {len(found):,} others lie there")
    state = [[file, entry.size_bytes, entry.modified] for file, entry in here]
    copy = cache / "folders" / short_id(address, state) / name
    if not copy.is_dir():
        fresh = copy.with_name(f".{name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        for file, entry in here:
            (fresh / file).parent.mkdir(parents=True, exist_ok=True)
            bucket.download(entry.key, fresh / file)
        _moved(fresh, copy)
    return copy


def _moved(fresh: Path, copy: Path) -> None:
    try:
        fresh.rename(copy)
    except OSError:
        if not copy.is_dir():
            raise
        shutil.rmtree(fresh)  # another process was first
