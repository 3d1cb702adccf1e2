"""The lineage as SQL: folding a store's files into ``lineage.duckdb``, and asking it."""

from pipeline_tasks.core.lineage.fold import DATABASE, fold, unfold
from pipeline_tasks.core.lineage.query import query

__all__ = ["DATABASE", "fold", "query", "unfold"]
