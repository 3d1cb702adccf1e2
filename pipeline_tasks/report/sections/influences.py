"""Which source helped which target, where a sampler looked at that while a model trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.report.content import Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INFLUENCES = """
SELECT source, found.entry.key AS target, avg(found.entry.value) AS influence, count(*) AS decisions
FROM (SELECT source, unnest(map_entries(influences)) AS entry FROM sampling_trajectories
      WHERE dataset = ? AND version = ?) AS found
GROUP BY ALL ORDER BY source, target
"""
_ROW, _LARGEST = 34, 15
"""CSS pixels from one source to the next, and across the largest dot."""


@dataclass(frozen=True)
class Helped:
    """Of one training: (source, target) -> mean influence, and how many decisions that is the mean of."""

    ref: str
    mean: dict[tuple[str, str], float]
    decisions: dict[tuple[str, str], int]

    @property
    def name(self) -> str:
        """Of the model."""
        return Ref.parse(self.ref).dataset.removeprefix("model/")

    @property
    def sources(self) -> list[str]:
        """The one that helped most first."""
        names = dict.fromkeys(source for source, _ in self.mean)
        return sorted(names, key=lambda s: -sum(value for (one, _), value in self.mean.items() if one == s))

    @property
    def targets(self) -> list[str]:
        """By name."""
        return sorted({target for _, target in self.mean})


def influence_section(ask: Ask, models: Sequence[str]) -> Section | None:
    """The trainings of these models whose sampler tried the sources; None where none did. Source: Inf-DDS, Figure 4."""
    found = [helped for ref in models if (helped := _read(ask, ref)).mean]
    if not found:
        return None
    title = "Which source helps which target"
    about = (
        "What steps on a source were found to do for a target, mean over all decisions: the larger the dot the more, "
        "filled where the target gained and empty where it lost. The largest dot of a training is as large as in any "
        "other."
    )
    head = ("training", "source", "target", "influence", "decisions", "version")
    rows = [
        (helped.name, source, target, f"{helped.mean[source, target]:+.5f}")
        + (f"{helped.decisions[source, target]:,}", Version(helped.ref))
        for helped in found
        for source in helped.sources
        for target in helped.targets
    ]
    table = Table(head, rows, frozenset({0, 1, 2, len(head) - 1}))
    return Section(title, (about,), Chart(title, about, lambda w: drawn(found, w)), table, in_short=False)


def _read(ask: Ask, name: str) -> Helped:
    ref = Ref.parse(name)
    rows = {(row["source"], row["target"]): row for row in ask(_INFLUENCES, ref.dataset, ref.version)}
    mean, decisions = ({pair: row[column] for pair, row in rows.items()} for column in ("influence", "decisions"))
    return Helped(name, mean, decisions)


def drawn(found: Sequence[Helped], width: float) -> Figure:
    """A row for each source and a column for each target, one training below the other."""
    heights = [_ROW * len(helped.sources) + 74 for helped in found]
    drawing = figure(width, sum(heights))
    for place, helped in enumerate(found):
        sources, targets = helped.sources, helped.targets
        label = min(9 + 7.4 * max(map(len, sources)), width / 2)
        top = sum(heights[:place]) + 30
        panel = axes(drawing, label, top, width - label - 16, _ROW * len(sources))
        largest = max(map(abs, helped.mean.values())) or 1.0
        for (source, target), value in helped.mean.items():
            colour = COLOUR["accent" if value > 0 else "refused"]
            size = max(3.0, _LARGEST * (abs(value) / largest) ** 0.5)
            filled = colour if value > 0 else "none"
            at = targets.index(target), sources.index(source)
            panel.plot(*at, "o", markersize=size, markeredgecolor=colour, markerfacecolor=filled, markeredgewidth=2)
        panel.set_xlim(-0.5, len(targets) - 0.5)
        panel.set_ylim(len(sources) - 0.5, -0.5)
        panel.set_xticks(range(len(targets)), targets)
        panel.set_yticks(range(len(sources)), sources)
        panel.set_title(helped.name)
    return drawing
