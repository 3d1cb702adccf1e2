"""Stores with what a training stage reads: a tiny model and a few rows; tuples of toy topics."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.parts import write_file
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, point
from pipeline_tasks.datasets import PAIRS
from tests.shapes import TOPICS
from tests.stores import put

KINDS = ("wa", "wb")
"""What an instruction may want of a topic; a passage says which of them it is."""


def pairs_only(folder: Path) -> LocalStore:
    """A store with an empty ``mtp``."""
    store = LocalStore(folder)
    put(store, PAIRS, [], dataset="mtp")
    return store


def put_model(store: LocalStore, folder: Path, dataset: str, version: str = "0" * 16, **params: object) -> Ref:
    """A version of ``dataset`` with the files of a model folder, as if it was made with ``params``."""
    parts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with store.temporary() as copy:
            shutil.copyfile(path, copy)
            parts.append(write_file(store, copy, str(path.relative_to(folder))))
    facts = {"step": "by_hand", "code_version": "1", "key": "name", "params": params, "inputs": {}, "rows": 0}
    manifest = Manifest(dataset=dataset, id=version, rows_schema=FILES, parts=parts, **facts)
    commit(store, manifest)
    point(store, manifest.ref)
    return manifest.ref


def planted(topic: int, split: str, filler: str = "wf") -> dict:
    """A tuple of a topic: an instruction for one kind, poison for the other; the next topic is the poisoned query."""
    query, other = (f"{TOPICS[(topic + n) % len(TOPICS)]} {filler}" for n in (0, 1))
    told, poisoned = KINDS if topic % 2 else KINDS[::-1]
    return {
        "query_id": f"q{topic}-{split}",
        "intent": "qa",
        "split": split,
        "query": query,
        "instruction": f"{told} only",
        "positive": f"{told} wc {query}",
        "poisoned_instruction": f"{poisoned} only",
        "poisoned_query": other,
        "instruction_passage": f"{poisoned} wd {query}",
        "query_passage": f"{told} we {other}",
    }
