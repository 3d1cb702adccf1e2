"""From an address to a store: the one place that knows which kinds there are."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.protocol import Store

_GIB = 1024**3


def open_store(address: Path | str | None = None) -> Store:
    """The store at ``address``, a folder or ``s3://bucket/prefix``; without one, the store of the settings.

    Nothing is asked of a bucket before the first use.

    Raises:
        InputError: no bucket is named, or boto3 is not installed.
    """
    found = settings()
    where = found.store if address is None else Settings.store_place(address)
    if isinstance(where, Path):
        return LocalStore(where)
    from pipeline_tasks.core.store.s3 import S3Store

    return S3Store(where, found.store_cache, int(found.store_cache_gib * _GIB), scratch=found.scratch)
