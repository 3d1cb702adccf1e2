"""The corpus of a DevLite: what reference models find for its queries, a few percent of all passages.

Source: DMRetriever, Algorithm 4, appendix E.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.made_from import check_corpus, read_instead
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.sample_queries import SampleParams, sampled
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.retrieval.reference_models import complete_panels, default_models, default_panels

_AT_ONCE = 10_000


class PoolPassagesParams(SampleParams):
    """Whose findings make the pool."""

    models: tuple[str, ...] = Field(
        default_factory=default_models,
        min_length=1,
        description="evaluated systems whose top passages are pooled; without judges= for every query",
    )
    judges: dict[str, tuple[str, ...]] = Field(
        default_factory=default_panels,
        min_length=1,
        description="intent, or any -> systems pooled for its queries; an intent not named pools all models",
    )
    depth: int = Field(10, ge=1, description="pool depth: top passages of each system and query")

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse queries that were judged on other passages, and an evaluation of others than these."""
        read = {name: inputs[name] for name in ("queries", "passages") if name in inputs}
        if len(read) == 2:
            check_corpus(read["queries"], read["passages"])
        if "evaluation" not in inputs:
            return
        others = {name: other for name in read if (other := read_instead(inputs["evaluation"], name, read[name]))}
        if others:
            theirs, ours = ", ".join(others.values()), ", ".join(str(read[name].manifest.ref) for name in others)
            raise InputError(
                f"{inputs['evaluation'].manifest.ref} is of {theirs}, not {ours}: evaluate on these and give that as "
                "--input evaluation=…, or give " + " ".join(f"--input {name}={other}" for name, other in others.items())
            )

    @model_validator(mode="before")
    @classmethod
    def _one_tells_the_other(cls, given: dict[str, Any]) -> dict[str, Any]:
        return complete_panels(given)

    def identity(self) -> dict[str, Any]:
        """Without ``judges``, where they all are all ``models``: so it was before these were told by intent."""
        found = super().identity()
        if all(set(panel) == set(self.models) for panel in self.judges.values()):
            del found["judges"]
        return found


@step(
    reads={
        "queries": From(JUDGED_QUERIES, "judged/{set_name}"),
        "evaluation": From(EVALUATIONS, "eval/{set_name}"),
        "passages": From(PASSAGES, "corpus/{set_name}"),
    },
    writes=PASSAGES,
    kind="reduce",
    dataset="corpus/{set_name}-dev",
    version="4",
)
def pool_passages(inputs: Inputs, params: PoolPassagesParams, run: Run) -> Iterator[pa.Table]:
    """The passages that any of the models of its intent has among its first ``depth`` for a query of the sample.

    Nobody's judgement decides what is in the pool, so that a query stays as hard as it is in the whole corpus.

    Raises:
        InputError: the evaluation is of other queries or passages, a model was not evaluated, or not on all of the
            sample, or its rows keep fewer passages than ``depth``. A query that an erasure left without an answer is
            evaluated by none.
    """
    ref = inputs["evaluation"].manifest.ref
    queries = inputs["queries"].table(["query_id", "intent", "query", "grades"]).sort_by("query_id")
    sample = queries.filter(pa.array(sampled(queries, params)))
    everyone = params.judges.get(ANY, params.models)
    panels = [params.judges.get(intent, everyone) for intent in sample["intent"].to_pylist()]
    asked = dict(zip(sample["query_id"].to_pylist(), panels, strict=True))
    rows = inputs["evaluation"].table(["system", "query_id", "passage_ids"])
    pooled = {system for panel in panels for system in panel}
    if missing := sorted(pooled - set(rows["system"].to_pylist())):
        raise InputError(f"{ref} has no system {missing[0]!r}: evaluate it on this set first, or name others in models")
    rows = rows.filter(pc.is_in(rows["system"], pa.array(sorted(pooled), pa.string())))
    there = set(zip(rows["system"].to_pylist(), rows["query_id"].to_pylist(), strict=True))
    answers = zip(asked, sample["grades"].to_pylist(), strict=True)
    wanted_of = {name: asked[name] for name, grades in answers if any(grade > 0 for grade in grades)}
    for system in sorted(pooled):
        mine = [name for name, panel in wanted_of.items() if system in panel]
        if absent := [name for name in mine if (system, name) not in there]:
            raise InputError(
                f"{ref} has no ranking by {system!r} of {len(absent):,} of {len(mine):,} queries, as of {absent[0]!r}: "
                f"evaluate it on {inputs['queries'].manifest.ref} first"
            )
    kept = pc.max(pc.list_value_length(rows["passage_ids"])).as_py()
    if kept is not None and kept < min(params.depth, inputs["passages"].manifest.rows):
        raise InputError(
            f"{ref} keeps {kept} passages a query, depth={params.depth} are asked for: raise kept there, or lower depth"
        )
    pool: set[str] = set()
    for row in rows.to_pylist():
        if row["system"] in asked.get(row["query_id"], ()):
            pool.update(row["passage_ids"][: params.depth])
    run.count("queries_sampled", len(asked))
    wanted = pa.array(sorted(pool), pa.string())
    for batch in inputs["passages"].batches(PASSAGES.arrow.names, _AT_ONCE):
        run.count("rows_in", len(batch))
        yield PASSAGES.conform(batch.filter(pc.is_in(batch["passage_id"], wanted)))
