"""Stores with what a training stage reads: a tiny model and a few rows."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, point, write_file
from pipeline_tasks.datasets import PAIRS
from tests.stores import put


def pairs_only(folder: Path) -> LocalStore:
    """A store with an empty ``mtp``."""
    store = LocalStore(folder)
    put(store, PAIRS, [], dataset="mtp")
    return store


def put_model(store: LocalStore, folder: Path, dataset: str, version: str = "0" * 16) -> Ref:
    """A version of ``dataset`` with the files of a model folder."""
    parts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with store.temporary() as copy:
            shutil.copyfile(path, copy)
            parts.append(write_file(store, copy, str(path.relative_to(folder))))
    facts = {"step": "by_hand", "code_version": "1", "key": "name", "params": {}, "inputs": {}, "rows": 0}
    manifest = Manifest(dataset=dataset, id=version, rows_schema=FILES, parts=parts, **facts)
    commit(store, manifest)
    point(store, manifest.ref)
    return manifest.ref
