"""A layered drawing of a graph that has no cycles: every edge goes to the right, few cross, long ones share a path.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981); the rows of
a layer are placed by isotonic regression. An edge that spans layers is led through *bends*; edges from one node share
them, so that what many read is one line that fans out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Bend = tuple[str, int]
Point = tuple[float, float]
_SWEEPS = 12
_BEND_HEIGHT = 0.4


@dataclass(frozen=True)
class Drawing:
    """Where everything is.

    Attributes:
        places: node -> (layer, row). Layers count from 0, left to right; rows are in units of one node's height.
        edges: (from, to, points between them).
    """

    places: dict[str, Point]
    edges: list[tuple[str, str, list[Point]]]


def layered(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> Drawing:
    """Draw ``nodes``; an edge (a, b) has b further right. The same graph always gives the same drawing."""
    known = set(nodes)
    links = sorted({(a, b) for a, b in edges if a in known and b in known and a != b})
    layer = _layers(nodes, links)
    links = [(a, b) for a, b in links if layer[a] < layer[b]]
    rows, beside = _with_bends(sorted(nodes), links, layer)
    for sweep in range(_SWEEPS):
        _order(rows, beside, leftwards=sweep % 2 == 1)
    at = _heights(rows, beside)
    return Drawing(
        places={name: (float(layer[name]), at[name, layer[name]]) for name in nodes},
        edges=[(a, b, [(float(i), at[a, i]) for i in range(layer[a] + 1, layer[b])]) for a, b in links],
    )


def _layers(nodes: Sequence[str], links: list[tuple[str, str]]) -> dict[str, int]:
    """Longest way from a node that nothing leads to; such a node then moves next to the first that reads it."""
    after, waiting = defaultdict(list), dict.fromkeys(nodes, 0)
    for a, b in links:
        after[a].append(b)
        waiting[b] += 1
    layer = dict.fromkeys(nodes, 0)
    starts = [name for name in nodes if not waiting[name]]
    ready = list(starts)
    while ready:
        name = ready.pop()
        for other in after[name]:
            layer[other] = max(layer[other], layer[name] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    for name in starts:
        layer[name] = min((layer[other] for other in after[name]), default=1) - 1
    return layer


def _with_bends(
    nodes: Sequence[str], links: list[tuple[str, str]], layer: dict[str, int]
) -> tuple[list[list[Bend]], dict[Bend, tuple[list[Bend], list[Bend]]]]:
    """Every layer's nodes and bends, both as (node, layer), and what stands left and right of each."""
    pieces: set[tuple[Bend, Bend]] = set()
    for a, b in links:
        path = [(a, i) for i in range(layer[a], layer[b])] + [(b, layer[b])]
        pieces |= set(zip(path, path[1:], strict=False))
    places = {(name, layer[name]) for name in nodes} | {end for piece in pieces for end in piece}
    rows: list[list[Bend]] = [[] for _ in range(max((i for _, i in places), default=-1) + 1)]
    beside: dict[Bend, tuple[list[Bend], list[Bend]]] = {place: ([], []) for place in places}
    for place in sorted(places):
        rows[place[1]].append(place)
    for left, right in sorted(pieces):
        beside[left][1].append(right)
        beside[right][0].append(left)
    return rows, beside


def _order(rows: list[list[Bend]], beside: dict[Bend, tuple[list[Bend], list[Bend]]], *, leftwards: bool) -> None:
    """Sort each layer by the mean place of its neighbours in the layer before; edges cross less after a few turns."""
    for row in reversed(rows) if leftwards else rows:
        around = {place: i for i, place in enumerate(row)}
        index = {place: i for other in rows for i, place in enumerate(other)}
        row.sort(key=lambda place: _mean([index[n] for n in beside[place][leftwards]], around[place]))  # noqa: B023


def _heights(rows: list[list[Bend]], beside: dict[Bend, tuple[list[Bend], list[Bend]]]) -> dict[Bend, float]:
    """Row of every node and bend: near the mean of its neighbours, in order, none over another."""
    here = {name: min(i for n, i in beside if n == name) for name in {n for n, _ in beside}}
    size = {place: 1.0 if here[place[0]] == place[1] else _BEND_HEIGHT for place in beside}
    at = {place: height for row in rows for place, height in zip(row, _stacked(row, size), strict=True)}
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            wanted = [_mean([at[n] for side in beside[place] for n in side], at[place]) for place in row]
            at |= zip(row, _apart(wanted, _stacked(row, size)), strict=True)
    lowest = min(at.values(), default=0.0)
    return {place: round(height - lowest, 3) for place, height in at.items()}


def _stacked(row: list[Bend], size: dict[Bend, float]) -> list[float]:
    """Middles of the places of ``row`` laid one below the other."""
    found, end = [], 0.0
    for place in row:
        found.append(end + size[place] / 2)
        end += size[place]
    return found


def _apart(wanted: list[float], stacked: list[float]) -> list[float]:
    """The heights nearest to ``wanted``, in squares, that keep the distances of ``stacked`` at least."""
    blocks: list[tuple[float, int]] = []
    for value in (w - s for w, s in zip(wanted, stacked, strict=True)):
        total, count = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before, n = blocks.pop()
            total, count = total + before, count + n
        blocks.append((total, count))
    shifts = [total / count for total, count in blocks for _ in range(count)]
    return [shift + s for shift, s in zip(shifts, stacked, strict=True)]


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
