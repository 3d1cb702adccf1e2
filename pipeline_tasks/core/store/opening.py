"""From an address to a store: the one place that knows which kinds there are."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.protocol import Store


def open_store(address: Path | str | None = None) -> Store:
    """The store at ``address``, a folder or ``s3://bucket/prefix``; without one, the store of the settings.

    Nothing is asked of a bucket before the first use.

    Raises:
        InputError: no bucket is named, or boto3 is not installed.
    """
    where = settings().store if address is None else Settings.store_place(address)
    if isinstance(where, Path):
        return LocalStore(where)
    from pipeline_tasks.core.store.s3 import S3Store

    return S3Store.of_this_machine(where)
