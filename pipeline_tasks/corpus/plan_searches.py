"""The searches of a domain: every combination of its lists (hazards x places), as queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.datasets import SEARCHES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.searches import files_sha256, load_plan, searches


class PlanSearchesParams(StepParams):
    """Which plan of the domain."""

    plan: str = Field("web", description="a table of the domain's search.toml")
    part_rows: int = Field(50, ge=1, description="searches per part: what one search task asks")

    def identity(self) -> dict[str, Any]:
        """The plan's name and what its files say."""
        folder = domain_folder()
        return super().identity() | {"files_sha256": files_sha256(folder, load_plan(folder, self.plan))}


@step(reads={}, writes=SEARCHES, kind="reduce")
def plan_searches(inputs: Inputs, params: PlanSearchesParams, run: Run) -> Iterator[pa.Table]:
    """Write down every search of the domain's plan once (DMRetriever, appendix A: 301 hazards x 50 states).

    A query that another combination gave before is a reject ``duplicate_search``.
    """
    folder = domain_folder()
    rows: dict[str, dict[str, Any]] = {}
    for query, terms in searches(folder, load_plan(folder, params.plan)):
        search_id = short_id(query)
        if search_id in rows:
            run.reject(search_id, "duplicate_search", query)
            continue
        rows[search_id] = {"search_id": search_id, "query": query, "plan": params.plan, "terms": list(terms.items())}
    found = list(rows.values())
    for first in range(0, len(found), params.part_rows):
        yield SEARCHES.table(found[first : first + params.part_rows])
