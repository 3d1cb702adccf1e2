"""Queries whose answers a model may have read: those on documents that were to be trained on when it was made.

The side of a document may change between two trainings, so that the corpus of today does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version

AT_ONCE = 65_536
_CORPORA = """
WITH RECURSIVE walk AS (
    SELECT dataset, version FROM version_named(?)
    UNION
    SELECT input_dataset, input_version FROM walk
    JOIN versions USING (dataset, version) JOIN version_inputs USING (dataset, version)
    WHERE input_name <> 'previous' AND rows_schema NOT IN ('evaluations', 'judged_queries')
        AND NOT (rows_schema = 'files'
            AND input_name IN ('judged', 'judged_passages', 'targets', 'target_passages'))
        AND NOT (starts_with(step, 'decontaminate_') AND input_name IN ('queries', 'passages', 'held_out'))
)
SELECT dataset, version FROM walk JOIN versions USING (dataset, version) WHERE rows_schema = 'passages' ORDER BY ALL"""
"""What rows and first weights came from, and not what a checkpoint was chosen by or rows were only compared with."""


def read_answers(store: Store, models: list[str], queries: str, passages: str) -> Iterator[str]:
    """A line for each of these models that was made from a corpus in which judged answers were on the side ``train``.

    Those that were dropped since are not looked at; a line tells of what has lost a part.

    Args:
        store: where everything is.
        models: versions of ours.
        queries: version of the judged queries.
        passages: version of what was searched for them.
    """
    try:
        documents = _documents(store, Ref.parse(passages), _relevant(store, Ref.parse(queries)))
    except InputError as error:
        yield f"cannot tell for {queries} who has read the answers: {error}"
        return
    if not documents:
        return
    trained: dict[Ref, set[str]] = {}
    for model in models:
        corpora = [Ref(**row) for row in query(store, _CORPORA, [model], rows=False).to_pylist()]
        for corpus in corpora:
            if corpus in trained:
                continue
            try:
                trained[corpus] = _trained(store, corpus, set(documents))
            except InputError as error:
                trained[corpus] = set()
                yield f"cannot tell for {corpus} whether answers were read in it: {error}"
        found = set().union(*(trained[corpus] for corpus in corpora))
        asked = set().union(*(documents[document] for document in found))
        if asked:
            yield (
                f"{model} may have read the answers to {len(asked):,} of these queries: among what it was made of is a "
                f"corpus that has {len(found):,} of the documents on the side train"
            )


def _relevant(store: Store, ref: Ref) -> dict[str, set[str]]:
    """Passage -> queries that it answers."""
    found: dict[str, set[str]] = {}
    for row in Version.open(store, ref).table(["query_id", "passage_ids", "grades"]).to_pylist():
        for passage_id, grade in zip(row["passage_ids"], row["grades"], strict=True):
            if grade > 0:
                found.setdefault(passage_id, set()).add(row["query_id"])
    return found


def _documents(store: Store, ref: Ref, relevant: dict[str, set[str]]) -> dict[str, set[str]]:
    """Document -> queries that one of its passages answers."""
    found: dict[str, set[str]] = {}
    for rows in Version.open(store, ref).batches(["passage_id", "doc_id"], AT_ONCE):
        for row in rows.filter(pc.is_in(rows["passage_id"], pc.cast(list(relevant), "string"))).to_pylist():
            found.setdefault(row["doc_id"], set()).update(relevant[row["passage_id"]])
    found.pop("", None)
    return found


def _trained(store: Store, ref: Ref, documents: set[str]) -> set[str]:
    found: set[str] = set()
    for rows in Version.open(store, ref).batches(["doc_id", "split"], AT_ONCE):
        of_train = rows.filter(pc.field("split") == "train")["doc_id"]
        found |= documents.intersection(pc.unique(of_train).to_pylist())
    return found
