"""A store with a few queries, their nearest passages and a task: what relabelling compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.models.use import REFERENCE_MODELS
from tests.shapes import FILLERS, TOPICS
from tests.stores import put

PASSAGE = {f"p{n}": f"{FILLERS[n]} {TOPICS[n]} {FILLERS[n + 1]}" for n in range(8)}
NEAREST = {"q0": ["p0", "p1", "p2"], "q1": ["p2", "p3"], "q2": ["p2"], "q3": ["p5", "p4", "p6", "p7"]}
SOURCE = {"q0": "p0", "q1": "p1", "q2": "p2", "q3": "p4"}
SPLIT = {"q0": "train", "q1": "train", "q2": "train", "q3": "dev"}
TASK = "find the passage"


def passage_rows(texts: Mapping[str, str]) -> list[dict]:
    """Passages with these texts, each of the split of the queries that it is near to."""
    return [{"passage_id": i, "text": t, "split": "dev" if i in NEAREST["q3"] else "train"} for i, t in texts.items()]


def filled(folder: Path) -> LocalStore:
    """Queries with their nearest passages in two parts; q1's own passage is not among them, q2's is alone."""
    store = LocalStore(folder)
    put(store, PASSAGES, passage_rows(PASSAGE))
    pairs = [
        {"query_id": name, "intent": "any", "query": TOPICS[int(name[1])], "instruction": TASK, "split": SPLIT[name]}
        | {"passage_id": SOURCE[name], "positive_id": SOURCE[name], "positive": PASSAGE[SOURCE[name]]}
        for name in NEAREST
    ]
    put(store, INSTRUCTED_PAIRS, pairs, dataset="mtp/fret/checked")
    near = [{"query_id": name, "passage_id": SOURCE[name], "passage_ids": ids} for name, ids in NEAREST.items()]
    put(store, RANKINGS, near[:2], near[2:], dataset=f"nearest/{REFERENCE_MODELS[0]}")
    return store
