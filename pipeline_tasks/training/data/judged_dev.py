"""Development queries that somebody judged, in place of those that an LLM wrote: see docs/evaluation.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.made_from import check_corpora, check_corpus
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import INSTRUCTED_QUERIES, PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.prompting import query_columns, with_passage_prefix
from pipeline_tasks.training.data.split_rows import ROWS_AT_ONCE, n_rows

_COLUMNS = ["query", "intent", "passage_ids", "grades"]
READS = {
    "judged": From(INSTRUCTED_QUERIES, "judged/{item}", each="choose_on"),
    "judged_passages": From(PASSAGES, "corpus/{item}", each="choose_on"),
    "targets": From(INSTRUCTED_QUERIES, "judged/{item}", each="targets"),
    "target_passages": From(PASSAGES, "corpus/{item}", each="targets"),
}
"""What a stage reads to choose its checkpoint by, and to guide its sampler; nothing unless parameters name sets."""


def check_sets(inputs: Inputs) -> None:
    """Do nothing where each judged set may be scored over the passages read with it, or one of the two is to come.

    Raises:
        InputError: a set was judged on other passages, or there are more targets than corpora of theirs, or fewer.
    """
    if "judged" in inputs and "judged_passages" in inputs:
        check_corpus(inputs["judged"], inputs["judged_passages"], "judged_passages")
    if "targets" in inputs and "target_passages" in inputs:
        check_corpora(_targets(inputs), "target_passages")


def dev_set(inputs: Inputs, own: Callable[[Layout], Examples]) -> Callable[[Layout], Examples]:
    """The development queries as a layout says: of the judged set where one is given, else ``own``."""
    return partial(_judged, inputs["judged"], inputs["judged_passages"]) if "judged" in inputs else own


def target_sets(inputs: Inputs) -> Callable[[Layout], dict[str, Examples]]:
    """The judged sets that a sampler is guided by, by name, as a layout says.

    Raises:
        InputError: there are more of them than corpora of theirs, or fewer.
    """
    targets = _targets(inputs)
    return lambda layout: {
        judged.manifest.dataset.removeprefix("judged/"): _judged(judged, corpus, layout) for judged, corpus in targets
    }


def _targets(inputs: Inputs) -> list[tuple[Version, Version]]:
    targets, corpora = inputs.each("targets"), inputs.each("target_passages")
    if len(targets) != len(corpora):
        raise InputError(
            f"{len(corpora)} target_passages for {len(targets)} targets: name one corpus for each set, in their order"
        )
    return list(zip(targets, corpora, strict=True))


def n_queries(inputs: Inputs, own: Version) -> int:
    """How many development queries there are: of the judged set, else of ``own``."""
    return inputs["judged"].manifest.rows if "judged" in inputs else n_rows(own, "dev")


def _judged(queries: Version, passages: Version, layout: Layout) -> Examples:
    """A row for each relevant passage of a query, with its grade as the target, over all passages of the corpus.

    A query whose intent has no instruction is asked without, as evaluation asks the exported model.
    """
    rows = passages.table(["passage_id", "text"])
    texts = with_passage_prefix(rows["text"], layout).to_pylist()
    text_of = dict(zip(rows["passage_id"].to_pylist(), texts, strict=True))
    return Examples(partial(_rows, queries, text_of, replace(layout, needs_intent=False)), list(text_of.values()))


def _rows(queries: Version, text_of: dict[str, str], layout: Layout) -> Iterator[pa.Table]:
    own = ["instruction"] if queries.has("instruction") else []
    for rows in queries.batches([*_COLUMNS, *own], ROWS_AT_ONCE):
        columns = (rows[name].to_pylist() for name in ("passage_ids", "grades"))
        relevant = [
            (row, passage, grade)
            for row, found in enumerate(zip(*columns, strict=True))
            for passage, grade in zip(*found, strict=True)
            if grade > 0
        ]
        if unknown := sorted({passage for _, passage, _ in relevant} - text_of.keys()):
            raise InputError(f"{queries.manifest.ref} judges {unknown[0]!r}, which is not in the corpus given with it")
        judged = rows.take(pa.array([row for row, _, _ in relevant], pa.int64()))
        positives = [text_of[passage] for _, passage, _ in relevant]
        targets = [[float(grade)] for _, _, grade in relevant]
        yield block(positives=positives, targets=targets, sources=judged["intent"], **query_columns(judged, layout))
