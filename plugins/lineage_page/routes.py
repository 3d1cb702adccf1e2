"""The page's API: versions, graph, one version, compare, trace, SQL."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from foundry_airflow.internals import may_trigger_runs
from pydantic import BaseModel, Field

from lineage_page.access import CurrentUser, requires_own_page, requires_sql
from pipeline_tasks import datasets
from pipeline_tasks.core.lineage.compare import compare
from pipeline_tasks.core.lineage.detail import detail
from pipeline_tasks.core.lineage.graph import MOST_NODES, graph, room_of, versions
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.sandbox import Answer, Sandbox
from pipeline_tasks.core.lineage.story import find_queries, story
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import open_store

router = APIRouter(tags=["lineage"])
REF = "DATASET or DATASET@VERSION, for example passages or mtt/0.75@latest"


@cache
def reader() -> Reader:
    """The lineage of the store in the settings."""
    return Reader(open_store())


@cache
def sandbox() -> Sandbox:
    """Where visitors' SQL runs."""
    return Sandbox(reader())


TheReader = Annotated[Reader, Depends(reader)]


class Statement(BaseModel):
    """What the SQL box sends."""

    sql: str = Field(max_length=20_000, description="one SELECT, or WITH, DESCRIBE, SUMMARIZE, SHOW")


@router.get("/me")
def me(user: CurrentUser) -> dict[str, Any]:
    """Who is logged in, whether the SQL box is open to them, and where the corpus can be asked."""
    return {"name": user.get_name(), "may_sql": may_trigger_runs(user), "ask_url": settings().ask_url}


@router.get("/versions")
def get_versions(lineage: TheReader) -> list[dict[str, Any]]:
    """Every dataset version, newest first."""
    return versions(lineage)


@router.get("/graph")
def get_graph(
    lineage: TheReader,
    focus: Annotated[str, Query(description=f"{REF}; empty: the newest of everything")] = "",
    most: Annotated[int, Query(ge=1, le=2000, description="versions at most, the nearest first")] = MOST_NODES,
) -> dict[str, Any]:
    """What the version was made from and what was made of it, with a place for each and paths between them."""
    return graph(lineage, Ref.parse(focus) if focus else None, most)


@router.get("/version")
def get_version(
    lineage: TheReader,
    ref: Annotated[str, Query(description=REF)],
    rows: Annotated[int, Query(ge=0, le=100, description="sample rows")] = 10,
) -> dict[str, Any]:
    """Manifest, runs, counters, cost, rejects by reason, licences, columns with their meaning, first rows."""
    found = detail(lineage, Ref.parse(ref), rows)
    meanings = _meanings().get(found["manifest"]["rows_schema"], {})
    columns = [column | {"doc": meanings.get(column["name"], "")} for column in found["columns"]]
    return found | {"columns": columns, "room": room_of(found["manifest"]["step"])}


@cache
def _meanings() -> dict[str, dict[str, str]]:
    return {schema.name: {column.name: column.doc for column in schema.columns} for schema in datasets.ALL}


@router.get("/compare")
def get_compare(
    lineage: TheReader,
    old: Annotated[str, Query(description=REF)],
    new: Annotated[str, Query(description=REF)],
) -> dict[str, Any]:
    """Rows added, removed and changed, by key; parameters, inputs and code version that differ."""
    return compare(lineage, Ref.parse(old), Ref.parse(new))


@router.get("/queries")
def get_queries(
    lineage: TheReader, contains: Annotated[str, Query(max_length=200, description="text in the query")] = ""
) -> list[dict[str, Any]]:
    """Up to twenty queries that contain a text."""
    return find_queries(lineage, contains)


@router.get("/trace")
def get_trace(
    lineage: TheReader, id: Annotated[str, Query(max_length=200, description="of a query or a passage")]
) -> dict[str, Any]:
    """The whole story of a query: page, document, URL, paid answers, votes, negatives, builds. Or that of a passage."""
    return story(lineage, id)


@router.post("/sql", dependencies=[Depends(requires_own_page), Depends(requires_sql)])
def post_sql(statement: Statement, box: Annotated[Sandbox, Depends(sandbox)]) -> Answer:
    """The answer to one SELECT; limited in time, memory, rows and files. For those who may trigger DAG runs."""
    return box.ask(statement.sql)
