"""Loss curves: how every training behind a model went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.report.content import DESK, Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CURVE = """
SELECT optimiser_step, n_rows, loss, dev_score FROM training_curves WHERE dataset = ? AND version = ?
ORDER BY optimiser_step
"""
_ALPHA = "SELECT value FROM params WHERE dataset = ? AND version = ? AND name = 'alpha'"


@dataclass(frozen=True)
class Curve:
    """One training: losses by optimiser step, and the scores that were taken on development data."""

    ref: str
    name: str
    n_rows: int
    losses: Sequence[tuple[int, float]]
    dev: Sequence[tuple[int, float]]

    @property
    def chosen(self) -> tuple[int, float] | None:
        """Step and score of the checkpoint that the training kept: of equal scores the later one."""
        return max(self.dev, key=lambda point: (point[1], point[0]), default=None)


def curve_section(ask: Ask, models: Sequence[str]) -> Section | None:
    """The trainings of these models in order; None where no curve was kept."""
    curves = [curve for ref in models if (curve := _read(ask, ref))]
    if not curves:
        return None
    title = "Training curves"
    about = (
        "Loss of every optimiser step, faint, and its running mean; below it the score on development data, by which "
        "the checkpoint is chosen."
    )
    return Section(title, (about,), Chart(title, about, lambda w: _draw(curves, w)), _table(curves), in_short=False)


def _read(ask: Ask, name: str) -> Curve | None:
    ref = Ref.parse(name)
    rows = ask(_CURVE, ref.dataset, ref.version)
    if not rows:
        return None
    alpha = ask(_ALPHA, ref.dataset, ref.version)
    stage = ref.dataset.removeprefix("model/") + (f"-{alpha[0]['value']}" if alpha else "")
    losses = [(row["optimiser_step"], row["loss"]) for row in rows if row["loss"] is not None and isfinite(row["loss"])]
    dev = [(row["optimiser_step"], row["dev_score"]) for row in rows if row["dev_score"] is not None]
    return Curve(name, stage, rows[-1]["n_rows"], losses, dev)


def _table(curves: Sequence[Curve]) -> Table:
    head = ("training", "steps", "rows", "first loss", "last loss", "dev score before", "best", "at step", "version")
    rows = []
    for curve in curves:
        best = curve.chosen
        ends = (f"{curve.losses[0][1]:.3f}", f"{curve.losses[-1][1]:.3f}") if curve.losses else ("", "")
        dev = (f"{curve.dev[0][1]:.3f}", f"{best[1]:.3f}", f"{best[0]:,}") if best else ("", "", "")
        rows.append((curve.name, f"{len(curve.losses):,}", f"{curve.n_rows:,}", *ends, *dev, Version(curve.ref)))
    return Table(head, rows, frozenset({0, len(head) - 1}))


def smoothed(losses: Sequence[float], reach: int) -> list[float]:
    """Each value's mean with those up to ``reach`` steps before and after it."""
    windows = (losses[max(0, i - reach) : i + reach + 1] for i in range(len(losses)))
    return [sum(window) / len(window) for window in windows]


def _draw(curves: Sequence[Curve], width: float) -> Figure:
    abreast = 2 if width != DESK else min(4, max(2, len(curves)))
    rows = -(-len(curves) // abreast)
    each, block = width / abreast, 268
    drawing = figure(width, rows * block)
    for i, curve in enumerate(curves):
        left, top = 36 + (i % abreast) * each, 30 + (i // abreast) * block
        loss = axes(drawing, left, top, each - 52, 108)
        dev = axes(drawing, left, top + 138, each - 52, 64)
        _loss(loss, curve, max((v for c in curves for _, v in c.losses), default=1))
        _dev(dev, curve, [v for c in curves for _, v in c.dev])
    return drawing


def _loss(panel: Axes, curve: Curve, highest: float) -> None:
    steps, losses = [s for s, _ in curve.losses], [v for _, v in curve.losses]
    panel.plot(steps, losses, color=COLOUR["accent"], linewidth=1, alpha=0.35)
    panel.plot(steps, smoothed(losses, len(losses) // 20), color=COLOUR["accent"], linewidth=2)
    panel.set_ylim(0, highest * 1.05)
    panel.set_title(curve.name.partition("/")[2])
    panel.set_xticklabels([])
    panel.text(1, 1.03, "loss", transform=panel.transAxes, ha="right", va="bottom", color=COLOUR["soft"])
    _few(panel)


def _dev(panel: Axes, curve: Curve, all_scores: list[float]) -> None:
    panel.text(1, 1.03, "dev score", transform=panel.transAxes, ha="right", va="bottom", color=COLOUR["soft"])
    if best := curve.chosen:
        colour, steps, scores = COLOUR["second"], [s for s, _ in curve.dev], [v for _, v in curve.dev]
        panel.plot(steps, scores, "o-", color=colour, markersize=4.5, linewidth=1.5, clip_on=False)
        panel.plot(*best, "o", markersize=10, markerfacecolor="none", markeredgecolor=colour, clip_on=False)
        low, high = min(all_scores), max(all_scores)
        panel.set_ylim(low - 0.15 * (high - low + 0.01), high + 0.2 * (high - low + 0.01))
    panel.set_xlim(0, max((s for s, _ in curve.losses), default=1))
    panel.set_xlabel("optimiser step", loc="right")
    _few(panel)


def _few(panel: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(3))
