"""How fast steps were on this store: what runs that built something took, for each row that they worked on.

Runs that found their version made say nothing of that, nor do those that only took the parts that groups had made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.query import answer, connect
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import Store

LATEST = 5
"""Runs that a rate is taken over: an older machine or release does not count for ever."""
_LOOKED_AT = 50
"""Runs, and versions, of a dataset among which these are sought."""
_RUNS = """
WITH told AS (
    SELECT *, lag(status) OVER (PARTITION BY step, dataset ORDER BY started_at) AS status_before FROM steps
),
counted AS (
    SELECT run_id, map_from_entries(list((name, value))) AS counts FROM counters GROUP BY run_id
)
SELECT step, dataset, version, duration_s, peak_memory_bytes, engine, workers, part_group, status_before, counts
FROM told LEFT JOIN counted USING (run_id)
WHERE status = 'complete' AND NOT coalesce(reused, false) AND duration_s > 0
QUALIFY row_number() OVER (PARTITION BY step, dataset ORDER BY started_at DESC) <= ?
ORDER BY started_at DESC"""
_SIZES = """
WITH latest AS (
    FROM versions QUALIFY row_number() OVER (PARTITION BY dataset ORDER BY created_at DESC) <= ?
),
source AS (
    SELECT i.dataset, i.version, i.input_name, bool_and(v.version IS NOT NULL) AS there,
        sum(CASE WHEN ends_with(i.input_dataset, '/rejects') THEN v.n_rejects ELSE v.rows END)::BIGINT AS rows
    FROM version_inputs i LEFT JOIN versions v
        ON v.dataset = regexp_replace(i.input_dataset, '/rejects$', '') AND v.version = i.input_version
    WHERE i.input_name <> 'previous' GROUP BY ALL
)
SELECT l.step, l.dataset, l.version, any_value(l.rows) AS rows, any_value(l.bytes) AS bytes,
    list({'name': s.input_name, 'rows': s.rows, 'there': s.there}) FILTER (s.version IS NOT NULL) AS sources
FROM latest l LEFT JOIN source s USING (dataset, version)
GROUP BY l.step, l.dataset, l.version ORDER BY any_value(l.created_at) DESC"""


@dataclass(frozen=True)
class Rate:
    """What the latest runs of a step took.

    Attributes:
        dataset: that they made.
        n_runs: how many.
        n_rows: rows that they worked on, together.
        most_rows: of one of them.
        seconds: of all of them.
        usd: that they paid.
        engines: where they computed, with the processes that they might have.
    """

    dataset: str
    n_runs: int
    n_rows: int
    most_rows: int
    seconds: float
    usd: float
    engines: tuple[str, ...]

    def hours_for(self, rows: float) -> float:
        """Hours that so many rows take in proportion; of a step that reads no rows those of a run."""
        return self._share(rows) * self.seconds / 3600

    def usd_for(self, rows: float) -> float:
        """Dollars that so many rows cost in proportion."""
        return self._share(rows) * self.usd

    def _share(self, rows: float) -> float:
        return rows / self.n_rows if self.n_rows else 1 / self.n_runs

    def source(self) -> str:
        """Which runs it is from, in a few words."""
        runs = "1 run" if self.n_runs == 1 else f"{self.n_runs} runs"
        rows = f" of up to {self.most_rows:,} rows" if self.most_rows else ""
        return f"{runs}{rows}: {' and '.join(self.engines)}"


@dataclass(frozen=True)
class _Made:
    """A version: its rows, and those of each of its inputs; of an input that is gone None."""

    dataset: str
    rows: int
    size_bytes: int
    sources: dict[str, int | None]

    def rows_read(self, step: Step) -> int | None:
        """Rows that it was made from: of a map step those of its first input."""
        names = [next(iter(step.reads))] if step.kind == "map" else list(self.sources)
        read = [self.sources.get(name) for name in names]
        return None if None in read else sum(rows or 0 for rows in read)


class Rates:
    """What the lineage knows of the runs and sizes of steps."""

    def __init__(self, runs: list[dict[str, Any]], versions: list[dict[str, Any]]) -> None:
        self._runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._made: dict[str, list[_Made]] = defaultdict(list)
        self._versions: dict[tuple[str, str], _Made] = {}
        for run in runs:
            self._runs[run["step"]].append(run | {"counts": dict(run["counts"] or ())})
        for row in versions:
            sources = {one["name"]: one["rows"] if one["there"] else None for one in row["sources"] or ()}
            made = _Made(row["dataset"], row["rows"], row["bytes"], sources)
            self._made[row["step"]].append(made)
            self._versions[row["dataset"], row["version"]] = made

    @classmethod
    def of(cls, store: Store) -> Rates:
        """Those of everything that was finished before the call."""
        with connect(fold(store, rows=False), store.folder / "objects") as con:
            runs, versions = (answer(con, sql, [_LOOKED_AT]).to_pylist() for sql in (_RUNS, _SIZES))
        return cls(runs, versions)

    def rate(self, step: Step, dataset: str) -> Rate | None:
        """What the latest runs took that built ``dataset``, else those that built another level of it.

        Another model or size is other work: what that took says nothing here.
        """
        alike = (run for run in self._runs[step.name] if _any_level(run["dataset"]) == _any_level(dataset))
        found = [(run, rows) for run in alike if (rows := self._rows_built(step, run)) is not None]
        chosen = [one for one in found if one[0]["dataset"] == dataset][:LATEST] or found[:LATEST]
        if not chosen:
            return None
        runs, rows = zip(*chosen, strict=True)
        return Rate(
            dataset=runs[0]["dataset"],
            n_runs=len(runs),
            n_rows=sum(rows),
            most_rows=max(rows),
            seconds=sum(run["duration_s"] for run in runs),
            usd=sum(run["counts"].get("cost_usd", 0) for run in runs),
            engines=tuple(dict.fromkeys(map(_engine, runs))),
        )

    def peak_bytes(self, step: Step, dataset: str) -> int:
        """The most memory that a run had which built ``dataset``, or a level of it; 0 where none was measured."""
        runs = (run for run in self._runs[step.name] if _any_level(run["dataset"]) == _any_level(dataset))
        return max((run["peak_memory_bytes"] or 0 for run in runs), default=0)

    def rows_out(self, step: Step, dataset: str) -> float | None:
        """Rows written for a row read, by the latest versions; of a map step, for a row of its first input."""
        of_step = self._made[step.name]
        made = [one for one in of_step if one.dataset == dataset] or of_step
        found = [(one.rows, read) for one in made if (read := one.rows_read(step))][:LATEST]
        return sum(rows for rows, _ in found) / sum(read for _, read in found) if found else None

    def row_bytes(self, step: Step, dataset: str) -> float | None:
        """Bytes of a row, by the newest version of the dataset."""
        newest = next((one for one in self._made[step.name] if one.dataset == dataset), None)
        return newest.size_bytes / newest.rows if newest and newest.rows else None

    def _rows_built(self, step: Step, run: dict[str, Any]) -> int | None:
        """Rows that a run worked on; None where it does not tell, or went on from what others had left."""
        counts = run["counts"]
        if step.kind == "map":
            before_counted = None if counts.get("parts_reused") else counts.get("rows_in")
            built = counts.get("rows_built", before_counted)
            return int(built) if built and counts.get("parts_built") else None
        made = self._versions.get((run["dataset"], run["version"]))
        resumed = step.resources.resumes and step.kind == "reduce" and run["status_before"] in ("failed", "unfinished")
        return None if made is None or resumed or counts.get("partitions_reused") else made.rows_read(step)


def _any_level(dataset: str) -> str:
    """``mtt/*`` of ``mtt/0.75``: a level of difficulty changes what is chosen, and not the work."""
    return re.sub(r"(?<=/)\d+(\.\d+)?(?![\w.])", "*", dataset)


def _engine(run: dict[str, Any]) -> str:
    group = " in a group of parts" if run["part_group"] else ""
    if run["engine"] is None:
        return f"an older release{group}"
    workers = f", {run['workers']} workers" if run["engine"] == "local" and run["workers"] > 1 else ""
    return f"{run['engine']}{workers}{group}"
