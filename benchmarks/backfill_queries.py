"""Hard negatives of a new alpha as queries of DuckDB and polars over the store's Parquet files."""

from __future__ import annotations

from pathlib import Path

from benchmarks.ranked_store import MODEL

ALPHA, K = 0.9, 9
_WINDOW = 40


def _files(root: Path, dataset: str) -> list[str]:
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import load_manifest

    store = LocalStore(root)
    return [str(store.local_path(part.key)) for part in load_manifest(store, Ref.parse(dataset)).parts]


_VIEWS = """
CREATE VIEW rankings AS SELECT query_id, passage_ids, scores FROM read_parquet($rankings);
CREATE VIEW asked AS SELECT query_id, positive_id, source_passage_id, split,
    list_filter(votes, lambda v: v.model = best_model)[1].positive_score AS positive_score FROM read_parquet($labelled);
CREATE VIEW splits AS SELECT passage_id, split FROM read_parquet($passages)
    UNION ALL SELECT positive_id, split FROM read_parquet($pairs);
"""

_CHOSEN = f"""
    SELECT query_id, list(passage_id ORDER BY rank)[1:{K}] AS ids, list(score ORDER BY rank)[1:{K}] AS scores
    FROM candidates JOIN splits USING (passage_id, split)
    WHERE passage_id NOT IN (positive_id, source_passage_id) GROUP BY query_id
"""

LISTS = f"""
COPY (WITH
below AS (
    SELECT query_id, positive_id, source_passage_id, split, passage_ids, scores,
        len(list_filter(scores, lambda s: s >= CAST({ALPHA} AS FLOAT) * positive_score)) AS n
    FROM rankings JOIN asked USING (query_id)),
candidates AS (
    SELECT query_id, positive_id, source_passage_id, split, unnest(passage_ids[n + 1 : n + {_WINDOW}]) AS passage_id,
        unnest(scores[n + 1 : n + {_WINDOW}]) AS score,
        generate_subscripts(passage_ids[n + 1 : n + {_WINDOW}], 1) AS rank
    FROM below)
{_CHOSEN}) TO '{{out}}'
"""

ROWS = f"""
COPY (WITH
flat AS (
    SELECT query_id, unnest(passage_ids) AS passage_id, unnest(scores) AS score,
        generate_subscripts(scores, 1) AS rank FROM rankings),
candidates AS (
    SELECT query_id, positive_id, source_passage_id, split, passage_id, score, rank
    FROM flat JOIN asked USING (query_id) WHERE score < CAST({ALPHA} AS FLOAT) * positive_score)
{_CHOSEN}) TO '{{out}}'
"""


def duckdb_lists(root: Path) -> int:
    """Lists are cut where the cosine falls below the bound; of what follows, a window of 40 is made into rows."""
    return _duckdb(root, LISTS)


def duckdb_rows(root: Path) -> int:
    """Every candidate is a row: joined, filtered, grouped."""
    return _duckdb(root, ROWS)


def _duckdb(root: Path, query: str) -> int:
    import duckdb

    out = root / "duckdb.parquet"
    with duckdb.connect() as con:
        con.sql("SET threads = 2")
        views = _VIEWS
        for name, dataset in (("rankings", f"rankings/{MODEL}"), ("labelled", "labelled"), ("passages", "passages"),
                              ("pairs", "mtp")):  # fmt: skip
            views = views.replace(f"${name}", str(_files(root, dataset)))
        con.execute(views)
        con.execute(query.format(out=out))
        found = con.sql(f"SELECT sum(len(ids)) FROM '{out}'").fetchall()
    return int(found[0][0])


def polars_rows(root: Path) -> int:
    """The same as rows in polars' streaming engine."""
    import polars as pl

    asked = pl.scan_parquet(_files(root, "labelled")).select(
        "query_id", "positive_id", "source_passage_id", "split",
        pl.col("votes").list.first().struct.field("positive_score").alias("positive_score"),
    )  # fmt: skip
    splits = pl.concat([
        pl.scan_parquet(_files(root, "passages")).select("passage_id", "split"),
        pl.scan_parquet(_files(root, "mtp")).select(pl.col("positive_id").alias("passage_id"), "split"),
    ])  # fmt: skip
    bound = pl.lit(ALPHA, pl.Float32) * pl.col("positive_score")
    chosen = (
        pl.scan_parquet(_files(root, f"rankings/{MODEL}"))
        .select("query_id", "passage_ids", "scores")
        .join(asked, on="query_id")
        .explode("passage_ids", "scores")
        .filter(pl.col("scores") < bound)
        .rename({"passage_ids": "passage_id"})
        .join(splits, on=["passage_id", "split"])
        .filter((pl.col("passage_id") != pl.col("positive_id")) & (pl.col("passage_id") != pl.col("source_passage_id")))
        .group_by("query_id")
        .agg(pl.col("passage_id", "scores").sort_by("scores", descending=True).head(K))
        .collect(engine="streaming")
    )
    chosen.write_parquet(root / "polars.parquet")
    return int(chosen["passage_id"].list.len().sum())
