"""Our negatives against those of sentence-transformers' ``mine_hard_negatives``: one rule, given vectors."""

from __future__ import annotations

from benchmarks.given_vectors import K, Task, differing, ours, st_faiss, st_torch


def test_same_negatives_as_sentence_transformers():
    task = Task.plant(2_000, 20_000)
    found = ours(task)
    for theirs in (st_faiss(task), st_torch(task)):
        differ = differing(task, found, theirs)
        assert differ.rows <= 10, "the peer's float32 sums may swap cosines that are close to each other"
        assert differ.beyond == 0
        assert differ.inexact == 0
    lengths = {len(row) for row in found}
    assert K in lengths and len(lengths) > 1, "the planted data must hold full and short rows"
    assert all(f"p{i}" not in row for i, row in enumerate(found))
