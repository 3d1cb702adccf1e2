"""The graph of dataset versions around the newest of everything, or around one version, ready to be drawn."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.layout import layered
from pipeline_tasks.core.lineage.reader import Ask, Reader
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import step_names
from pipeline_tasks.core.versions import resolve

MOST_NODES = 400
_VERSIONS = """
    SELECT dataset || '@' || version AS ref, dataset, version, step, code_version, rows, bytes, parts, n_rejects,
        created_at, is_latest, rows_schema,
        (dataset, version) IN (SELECT (dataset, version) FROM licences WHERE non_commercial) AS non_commercial
    FROM versions ORDER BY created_at DESC, ref"""
_EDGES = """
    SELECT DISTINCT regexp_replace(input_dataset, '/rejects$', '') || '@' || input_version AS made_from,
        dataset || '@' || version AS made
    FROM version_inputs WHERE ? OR input_name <> 'previous' ORDER BY ALL"""


def versions(reader: Reader) -> list[dict[str, Any]]:
    """Every version, newest first, with the room of its step (``corpus``, …; empty where no step has that name)."""
    with reader.asking(rows=False) as ask:
        return _versions(ask)


def _versions(ask: Ask) -> list[dict[str, Any]]:
    return [row | {"room": room_of(row["step"])} for row in ask(_VERSIONS)]


def room_of(step: str) -> str:
    """The package that ``step`` is in."""
    parts = step_names().get(step, "").split(".")
    return parts[1] if len(parts) > 2 else ""


def graph(reader: Reader, focus: Ref | None = None, most: int = MOST_NODES) -> dict[str, Any]:
    """Nodes with places and edges with paths; see :class:`~pipeline_tasks.core.lineage.layout.Drawing`.

    Args:
        reader: the lineage.
        focus: show what this version was made from, grew from, and what was made of it; None: the latest version of
            each dataset, and all that they were made from, without what any of them grew from.
        most: nodes at most; the nearest stay, and ``n_left_out`` says how many did not.

    Raises:
        InputError: ``focus`` is not in the store, or not in the lineage, also where this is brought up to date.
    """
    focus = focus and resolve(reader.store, focus).of_rows
    for fresh in (False, True):
        with reader.asking(rows=False, fresh=fresh) as ask:
            known = {row["ref"]: row for row in _versions(ask)}
            edges = [(row["made_from"], row["made"]) for row in ask(_EDGES, focus is not None)]
        if not focus or str(focus) in known:
            break
    else:
        raise InputError(f"{focus} is not in the lineage; take a version from the list")
    start = [str(focus)] if focus else [ref for ref, row in known.items() if row["is_latest"]]
    near = _reached(start, edges, upwards=True)
    if focus:
        near = {ref: depth for ref, depth in sorted((near | _reached(start, edges, upwards=False)).items())}
    kept = sorted(near, key=lambda ref: (near[ref], ref))[:most]
    drawing = layered(sorted(kept), edges)
    return {
        "focus": start[0] if focus else None,
        "nodes": [
            known.get(ref, _missing(ref)) | {"layer": drawing.places[ref][0], "row": drawing.places[ref][1]}
            for ref in sorted(kept)
        ],
        "edges": [{"source": a, "target": b, "bends": points} for a, b, points in drawing.edges],
        "n_left_out": len(near) - len(kept),
    }


def _reached(start: list[str], edges: list[tuple[str, str]], *, upwards: bool) -> dict[str, int]:
    """Distance of every node that can be reached from ``start`` along the edges, or against them."""
    after: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        after[b if upwards else a].append(a if upwards else b)
    found, depth, ring = dict.fromkeys(start, 0), 0, start
    while ring:
        depth += 1
        ring = sorted({other for name in ring for other in after[name]} - found.keys())
        found |= dict.fromkeys(ring, depth)
    return found


def _missing(ref: str) -> dict[str, Any]:
    """A version that others name and that is gone."""
    dataset, _, version = ref.partition("@")
    return {"ref": ref, "dataset": dataset, "version": version, "room": "", "is_missing": True}
