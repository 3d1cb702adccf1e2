"""Where bytes live: one protocol, in a folder or in a bucket."""

from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.opening import open_store
from pipeline_tasks.core.store.protocol import TEMPORARY, Entry, Store

__all__ = ["TEMPORARY", "Entry", "LocalStore", "Store", "open_store"]
