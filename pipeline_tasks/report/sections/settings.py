"""Settings of one training that were tried beside each other: what each value scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.report.content import DESK, Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, LINES, axes, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARAMS = """
SELECT '' AS read, name, value FROM params WHERE dataset = ? AND version = ?
UNION ALL
SELECT i.input_name, p.name, p.value FROM version_inputs i
JOIN params p ON p.dataset = i.input_dataset AND p.version = i.input_version
WHERE i.dataset = ? AND i.version = ? AND i.input_name <> 'init'
  AND p.name NOT IN (SELECT name FROM params WHERE dataset = i.dataset AND version = i.version)
ORDER BY ALL
"""
_WENT_ON_FROM = """
WITH RECURSIVE begun AS (
    SELECT unnest(?) AS ref
    UNION
    SELECT i.input_dataset || '@' || i.input_version
    FROM begun JOIN version_inputs i ON i.dataset || '@' || i.version = ref AND i.input_name IN ('init', 'models')
)
SELECT b.ref FROM begun b SEMI JOIN (
    SELECT input_dataset || '@' || input_version AS ref FROM begun
    JOIN version_inputs i ON i.dataset || '@' || i.version = begun.ref AND i.input_name IN ('init', 'models')
) USING (ref)
"""
"""Of some versions and those they began as, the ones that training went on from."""
_FEWEST, _MOST_PANELS = 3, 4
_WIDE_RANGE = 8
"""A parameter whose values are so many times apart is drawn on a logarithmic scale."""


@dataclass(frozen=True)
class Tried:
    """A trained version, what was set differently in others, and its average score."""

    ref: str
    values: Mapping[str, str]
    score: float


def settings_section(ask: Ask, scores: Scores, system: str) -> Section | None:
    """The versions that were trained as the system was; None where fewer than three differ by more than their seed.

    Source: BMEmbed, Figures 3 and 5.
    """
    tried = _tried(ask, scores, system)
    names = list(tried[0].values) if tried else []
    if len({tuple(one.values.values()) for one in tried}) < _FEWEST:
        return None
    metric = scores.metric.upper()
    title = f"Settings tried on {scores.set_name}"
    about = (
        f"Average {metric} of every version by what was set, in it or in what it learned from; a line joins the means "
        "of a value. What was chosen by this table was chosen on these queries: its score here flatters it."
    )
    start = scores.start_of(system)
    if start:
        about += f" The dashed line is {start}, which they began as."
    best = sorted(tried, key=lambda one: (-one.score, *one.values.values()))
    rows: list[tuple[str | Version, ...]] = [
        (*one.values.values(), f"{one.score:.3f}", Version(one.ref)) for one in best
    ]
    table = Table((*names, f"average {metric}", "version"), rows, frozenset({*range(len(names)), len(names) + 1}))
    level = scores.table[start][AVERAGE].mean if start else None
    numeric = [name for name in names if all(_number(one.values[name]) is not None for one in tried)][:_MOST_PANELS]
    words = next((name for name in names if name not in numeric), "")
    chart = Chart(title, about, lambda width: drawn(tried, numeric, words, level, width)) if numeric else None
    return Section(title, (about,), chart, table, in_short=False)


def _tried(ask: Ask, scores: Scores, system: str) -> list[Tried]:
    """The evaluated versions of the system's dataset, with the parameters in which any two of them differ.

    One that another went on from is no setting beside it: an iteration of the same training.
    """
    if not scores.models.get(system):
        return []
    dataset = Ref.parse(scores.models[system]).dataset
    refs = {name: ref for name, ref in scores.models.items() if ref and Ref.parse(ref).dataset == dataset}
    before = {row["ref"] for row in ask(_WENT_ON_FROM, list(refs.values()))}
    refs = {name: ref for name, ref in refs.items() if ref not in before}
    found = {name: _settings(ask, Ref.parse(ref)) for name, ref in refs.items()}
    keys = dict.fromkeys(key for values in found.values() for key in values if key != "seed")
    apart = [key for key in keys if len({values.get(key, "") for values in found.values()}) > 1]
    return [
        Tried(refs[name], {key: values.get(key, "") for key in apart}, scores.table[name][AVERAGE].mean)
        for name, values in found.items()
    ]


def _settings(ask: Ask, ref: Ref) -> dict[str, str]:
    """Parameters of a version and, where it has none of that name, of what it read; objects by their parts."""
    rows = ask(_PARAMS, *(ref.dataset, ref.version) * 2)
    said: dict[str, set[str]] = {}
    for row in rows:
        said.setdefault(row["name"], set()).add(row["value"])
    values: dict[str, str] = {}
    for row in rows:
        apart = len(said[row["name"]]) > 1  # of two inputs that were made otherwise
        name, value = f"{row['read']}.{row['name']}" if apart else row["name"], _parsed(row["value"])
        parts = value if isinstance(value, dict) else {}
        values |= {f"{name}.{part}": str(of) for part, of in parts.items() if part != "code"}
        values |= {} if parts else {name: row["value"]}
    return values


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def drawn(tried: Sequence[Tried], numeric: Sequence[str], words: str, level: float | None, width: float) -> Figure:
    """A panel for each parameter that is a number; a colour for each value of ``words``, a dashed line at ``level``."""
    abreast = min(len(numeric), 2) if width == DESK else 1
    each, block = width / abreast, 236
    drawing = figure(width, -(-len(numeric) // abreast) * block + 14)
    kinds = sorted({one.values.get(words, "") for one in tried})
    for place, name in enumerate(numeric):
        left, top = 46 + (place % abreast) * each, 34 + (place // abreast) * block
        panel = axes(drawing, left, top, each - 62, block - 74)
        for kind, role in zip(kinds, LINES * len(kinds), strict=False):
            _line(panel, [one for one in tried if one.values.get(words, "") == kind], name, kind, COLOUR[role])
        if level is not None:
            panel.axhline(level, color=COLOUR["muted"], linestyle=(0, (4, 4)), linewidth=1.5)
        values = sorted({float(one.values[name]) for one in tried})
        if values[0] > 0 and values[-1] / values[0] >= _WIDE_RANGE:
            panel.set_xscale("log")
        panel.set_xticks(values, [f"{value:g}" for value in values])
        panel.minorticks_off()
        panel.margins(0.12, 0.18)
        panel.set_title(name)
        if words and place == 0:
            panel.legend(frameon=False, labelcolor=COLOUR["ink"], loc="best")
    return drawing


def _line(panel: Axes, tried: Sequence[Tried], name: str, kind: str, colour: str) -> None:
    by_value: dict[float, list[float]] = {}
    for one in sorted(tried, key=lambda one: float(one.values[name])):
        by_value.setdefault(float(one.values[name]), []).append(one.score)
    for value, found in by_value.items():
        panel.plot([value] * len(found), found, "o", markersize=6, color=colour, alpha=0.45)
    means = [sum(found) / len(found) for found in by_value.values()]
    panel.plot(list(by_value), means, "-", color=colour, linewidth=2, label=kind)
