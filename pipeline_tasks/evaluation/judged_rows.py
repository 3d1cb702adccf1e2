"""Queries that can be scored, whichever set they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.datasets import JUDGED_QUERIES

AT_ONCE = 10_000


def judged(rows: Iterable[dict[str, Any]], inputs: Inputs, run: Run) -> pa.Table:
    """The rows that can be scored, by rising id; the others are rejects.

    Args:
        rows: columns of ``judged_queries``, and in place of the judgements ``judged``: passage id -> grade.
        inputs: ``passages`` are the corpus.
        run: takes the rejects.

    Raises:
        InputError: no query is left.
    """
    passages = {*_ids(inputs)}
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        run.count("rows_in")
        name, grades = row["query_id"], row.pop("judged")
        for passage in sorted(grades.keys() - passages):
            run.reject(name, "unknown_passage", passage)
        known = {passage: grade for passage, grade in sorted(grades.items()) if passage in passages}
        if name in found or not row["query"].strip():
            run.reject(name, "duplicate_id" if name in found else "blank_query", row["query"])
        elif not any(grade > 0 for grade in known.values()):
            run.reject(name, "no_passage", row["query"])
        else:
            found[name] = row | {"passage_ids": list(known), "grades": list(known.values())}
            run.count("judgements", len(known))
    if not found:
        raise InputError("no query has a passage that answers it in this corpus: give the corpus that was judged")
    return JUDGED_QUERIES.table([found[name] for name in sorted(found)])


def check_name(dataset: str, set_name: str) -> None:
    """Do nothing where queries of ``dataset`` may be called ``set_name``.

    Raises:
        InputError: they are of a judged set of another name.
    """
    kind, _, name = dataset.partition("/")
    if kind in ("judged", "instructed") and name != set_name:
        raise InputError(f"set_name={set_name!r} and the queries are {dataset}: name that set, or queries of this one")


def _ids(inputs: Inputs) -> Iterator[str]:
    for batch in inputs["passages"].batches(["passage_id"], AT_ONCE):
        yield from batch["passage_id"].to_pylist()
