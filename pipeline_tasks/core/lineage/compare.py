"""What changed between two versions: parameters, inputs, code version, and rows added, removed and changed."""

# ruff: noqa: S608 (column names are quoted, the SELECTs are ours)

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.beside import beside
from pipeline_tasks.core.lineage.detail import clipped
from pipeline_tasks.core.lineage.reader import Ask, Reader
from pipeline_tasks.core.lineage.rows import live_rows_sql, quoted
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.versions import load_manifest

_NO_ROWS: dict[str, Any] = {"n_added": 0, "n_removed": 0, "n_changed": 0, "added": [], "removed": [], "changed": []}


def compare(reader: Reader, old: Ref, new: Ref, n_samples: int = 20) -> dict[str, Any]:
    """The differences of ``new`` from ``old``, and up to ``n_samples`` rows of each kind; a model's rows are its files.

    Parts that both versions read the same way are not opened, so the cost is that of the change.

    Raises:
        InputError: a version is missing, or their rows have no common key.
    """
    a, b = load_manifest(reader.store, old), load_manifest(reader.store, new)
    if (a.rows_schema, a.key) != (b.rows_schema, b.key):
        raise InputError(f"{a.ref} has rows of {a.rows_schema!r} and {b.ref} of {b.rows_schema!r}: choose two alike")
    return {
        "old": _head(a),
        "new": _head(b),
        "key": a.key,
        "params": _changed(a.params, b.params),
        "inputs": _changed(a.inputs, b.inputs),
        "licences": _changed(a.licences, b.licences),
    } | (_files(a, b) if a.rows_schema == FILES else _rows(reader, a, b, n_samples))


def _head(m: Manifest) -> dict[str, Any]:
    return {"ref": str(m.ref), "step": m.step, "code_version": m.code_version, "rows": m.rows, "parts": len(m.parts)}


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    names = sorted(n for n in old.keys() | new.keys() if (n in old, old.get(n)) != (n in new, new.get(n)))
    return [{"name": name, "old": old.get(name), "new": new.get(name)} for name in names]


def _files(a: Manifest, b: Manifest) -> dict[str, Any]:
    old, new = ({part.name or part.sha256: part for part in m.parts} for m in (a, b))
    both = sorted(old.keys() & new.keys())
    changed = [name for name in both if old[name].sha256 != new[name].sha256]
    return {
        "n_added": len(new.keys() - old.keys()),
        "n_removed": len(old.keys() - new.keys()),
        "n_changed": len(changed),
        "added": [{"name": name, "size_bytes": new[name].size_bytes} for name in sorted(new.keys() - old.keys())],
        "removed": [{"name": name, "size_bytes": old[name].size_bytes} for name in sorted(old.keys() - new.keys())],
        "changed": [
            {"key": name, "columns": [{"column": "sha256", "old": old[name].sha256, "new": new[name].sha256}]}
            for name in changed
        ],
    }


def _rows(reader: Reader, a: Manifest, b: Manifest, n_samples: int) -> dict[str, Any]:
    same = set(read_alike(a)) & set(read_alike(b))
    old, new = (_other_rows(reader, m, same) for m in (a, b))
    if not old and not new:
        return _NO_ROWS
    old, new = old or f"SELECT * FROM ({new}) LIMIT 0", new or f"SELECT * FROM ({old}) LIMIT 0"
    with reader.asking() as ask:
        return _difference(ask, old, new, a.key, n_samples)


def _other_rows(reader: Reader, m: Manifest, same: set[tuple[str, tuple[str, ...]]]) -> str:
    """A SELECT of the rows in parts that are not among ``same``; empty where there are none."""
    other = [i for i, part in enumerate(read_alike(m)) if part not in same]
    return live_rows_sql(reader.store, m, other) if other else ""


def read_alike(m: Manifest) -> list[tuple[str, tuple[str, ...]]]:
    """For each part its bytes and the removals that readers apply to it: equal means equal rows."""
    return [
        (part.sha256, tuple(sorted(f"{r.column}:{r.part.sha256}" for r in m.removals if r.first <= i < r.last)))
        for i, part in enumerate(m.parts)
    ]


def _difference(ask: Ask, old: str, new: str, key: str, n_samples: int) -> dict[str, Any]:
    """Rows of two SELECTs that differ; columns that only one has are named, and not compared."""
    before, after = _columns(ask, old), _columns(ask, new)
    common = [name for name in before if name in after]
    k, rows = quoted(key), ", ".join(f"{quoted(name)} := {quoted(name)}" for name in common)
    sides = f"""WITH
        a AS (SELECT {k} AS k, hash(struct_pack({rows})) AS h FROM ({old})),
        b AS (SELECT {k} AS k, hash(struct_pack({rows})) AS h FROM ({new})),
        d AS (SELECT k, CASE WHEN a.h IS NULL THEN 'added' WHEN b.h IS NULL THEN 'removed' ELSE 'changed' END AS what
              FROM a FULL JOIN b USING (k) WHERE a.h IS DISTINCT FROM b.h)"""
    found = ask(f"{sides} SELECT what, count(*) AS n, min(k, ?) AS ks FROM d GROUP BY what", n_samples)
    counts, keys = {row["what"]: row["n"] for row in found}, {row["what"]: row["ks"] for row in found}
    return {
        "columns_added": [name for name in after if name not in before],
        "columns_removed": [name for name in before if name not in after],
        "n_added": counts.get("added", 0),
        "n_removed": counts.get("removed", 0),
        "n_changed": counts.get("changed", 0),
        "added": [clipped(row) for row in _some(ask, new, k, keys.get("added")).values()],
        "removed": [clipped(row) for row in _some(ask, old, k, keys.get("removed")).values()],
        "changed": _pairs(ask, old, new, k, keys.get("changed"), common),
    }


def _columns(ask: Ask, select: str) -> dict[str, str]:
    return {row["column_name"]: row["column_type"] for row in ask(f"DESCRIBE {select}")}


def _some(ask: Ask, select: str, key: str, keys: Iterable[Any] | None) -> dict[Any, dict[str, Any]]:
    if not keys:
        return {}
    found = ask(f"SELECT {key} AS k, t AS r FROM ({select}) t WHERE {key} IN (SELECT unnest(?)) ORDER BY 1", list(keys))
    return {row["k"]: row["r"] for row in found}


def _pairs(ask: Ask, old: str, new: str, key: str, keys: list[Any] | None, columns: list[str]) -> list[dict[str, Any]]:
    before, after = _some(ask, old, key, keys), _some(ask, new, key, keys)
    return [
        {
            "key": name,
            "columns": [
                {"column": c} | dict(zip(("old", "new"), beside(before[name][c], after[name][c]), strict=True))
                for c in columns
                if before[name][c] != after[name][c]
            ],
        }
        for name in before
    ]
