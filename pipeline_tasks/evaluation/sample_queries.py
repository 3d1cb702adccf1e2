"""DevLite: a few queries of a judged set to develop on, and the others to report on.

Source: DMRetriever, Algorithm 4, appendix E.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.made_from import read_instead
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.judged_rows import judged


class SampleParams(StepParams):
    """How much of which set."""

    set_name: str = Field("questions", description="name of the judged set")
    per_intent: int = Field(80, ge=1, description="dev queries per intent, at most half of them")
    salt: str = Field("devlite", description="seed of the sample: another value draws other queries")


class SampleQueriesParams(SampleParams):
    """Which of the two."""

    part: Literal["dev", "test"] = Field("dev", description="dev: the sample; test: all others")

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse passages of which the set was not judged, or a pool of other queries."""
        if "queries" not in inputs or "passages" not in inputs:
            return
        asked, passages = inputs["queries"].manifest.ref, inputs["passages"].manifest.ref
        if self.part == "test":
            if whole := read_instead(inputs["queries"], "passages", inputs["passages"]):
                raise InputError(
                    f"part=test is for reports, over all passages that {asked} was judged on, and not over {passages}: "
                    f"give --input passages={whole}"
                )
        elif other := read_instead(inputs["passages"], "queries", inputs["queries"]):
            raise InputError(f"{passages} was pooled for {other}, not {asked}: run pool_passages first")


@step(
    reads={"queries": From(JUDGED_QUERIES, "judged/{set_name}"), "passages": From(PASSAGES, "corpus/{set_name}-dev")},
    writes=JUDGED_QUERIES,
    kind="reduce",
    dataset="judged/{set_name}-{part}",
    version="4",
)
def sample_queries(inputs: Inputs, params: SampleQueriesParams, run: Run) -> pa.Table:
    """One side of a judged set, with what is judged among the passages given: of dev the pool, of test the corpus.

    Judgements of passages that the pool does not have are left out, and are counted as rejects ``unknown_passage``; a
    query whose relevant passages no model found is ``no_passage``.

    Source: DMRetriever, Algorithm 4. Departure: at most half of an intent's queries are for development, besides those
    whose words another intent's sample has.

    Raises:
        InputError: of test, the passages are not those that the set was judged on: in the pool every query is easier.
            Of dev, the pool is of other queries.
    """
    queries = inputs["queries"].table().sort_by("query_id")
    chosen = sampled(queries, params)
    side = queries.filter(pa.array(chosen if params.part == "dev" else ~chosen)).to_pylist()
    return judged((row | {"judged": _grades(row)} for row in side), inputs, run)


def _grades(row: dict[str, list]) -> dict[str, int]:
    return dict(zip(row.pop("passage_ids"), row.pop("grades"), strict=True))


def sampled(queries: pa.Table, params: SampleParams) -> np.ndarray:
    """Which rows are to develop on: of each intent those with the lowest hashes, so that more queries move few.

    Hashed are a query's words: what several ids have, or several intents ask, is on one side.

    Shapes: returns [q], bool.
    """
    texts, intents = queries["query"].to_pylist(), np.array(queries["intent"].to_pylist())
    hashes = np.array([unit_hash(params.salt, " ".join(text.lower().split())) for text in texts])
    found = np.zeros(len(texts), bool)
    for intent in np.unique(intents):
        own = np.flatnonzero(intents == intent)
        most = min(params.per_intent, len(own) // 2)
        found[own] = hashes[own] < np.sort(hashes[own])[most]
    return np.isin(hashes, hashes[found])
