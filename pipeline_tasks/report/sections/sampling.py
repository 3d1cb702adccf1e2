"""What samplers decided: how often every source was to be learned from as each training went on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.report.content import Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, LINES, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TRAJECTORY = """
SELECT * FROM sampling_trajectories WHERE dataset = ? AND version = ? ORDER BY optimiser_step, gradients, source
"""
_STYLES = ("-", "--", ":")


@dataclass(frozen=True)
class Sampled:
    """One training with a sampler: source -> its rows of the trajectory, in order."""

    ref: str
    sources: dict[str, list[dict[str, Any]]]

    @property
    def name(self) -> str:
        """Of the model."""
        return Ref.parse(self.ref).dataset.removeprefix("model/")


def sampling_section(ask: Ask, models: Sequence[str]) -> Section | None:
    """The trainings of these models that had a sampler, in order; None where none had."""
    found = [sampled for ref in models if (sampled := _read(ask, ref)).sources]
    if not found:
        return None
    title = "How sources were sampled"
    about = (
        "Probability that a source gives the next batch, by optimiser step. Influence is what learning from it was "
        "found to do for the targets, mean over decisions; deciding is the share of all tokens that decisions took."
    )
    return Section(title, (about,), Chart(title, about, lambda w: _draw(found, w)), _table(found), in_short=False)


def _read(ask: Ask, name: str) -> Sampled:
    ref = Ref.parse(name)
    sources: dict[str, list[dict[str, Any]]] = {}
    for row in ask(_TRAJECTORY, ref.dataset, ref.version):
        sources.setdefault(row["source"], []).append(row)
    return Sampled(name, sources)


def _table(found: Sequence[Sampled]) -> Table:
    head = ("training", "source", "first", "last", "batches", "influence", "deciding", "version")
    rows = []
    for sampled in found:
        for source, points in sampled.sources.items():
            last, tried = points[-1], [p["influence"] for p in points if p["influence"] is not None]
            influence = f"{sum(tried) / len(tried):+.4f}" if tried else ""
            deciding = f"{last['n_deciding_tokens'] / max(1, last['n_tokens']):.0%}"
            ends = (f"{points[0]['probability']:.3f}", f"{last['probability']:.3f}")
            row = (sampled.name, source, *ends, f"{last['n_batches']:,}", influence, deciding, Version(sampled.ref))
            rows.append(row)
    return Table(head, rows, frozenset({0, 1, len(head) - 1}))


def _draw(found: Sequence[Sampled], width: float) -> Figure:
    block = 230
    drawing = figure(width, len(found) * block)
    for i, sampled in enumerate(found):
        panel = axes(drawing, 44, 30 + i * block, width - 60, 120)
        for number, (source, points) in enumerate(sampled.sources.items()):
            steps, likely = [p["optimiser_step"] for p in points], [p["probability"] for p in points]
            colour, style = COLOUR[LINES[number % len(LINES)]], _STYLES[number // len(LINES) % len(_STYLES)]
            panel.plot(steps, likely, style, color=colour, label=source, linewidth=2, drawstyle="steps-post")
        panel.set_ylim(0, 1)
        panel.set_title(sampled.name)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    return drawing
