"""NDCG by stage and iteration: where along the training the score was won."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.report.content import DESK, Chart, Section, Table
from pipeline_tasks.report.names import interval_text
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure, floor_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CHAIN = """
WITH RECURSIVE chain AS (
    SELECT ? AS ref, 0 AS depth
    UNION
    SELECT i.input_dataset || '@' || i.input_version, depth + 1
    FROM chain JOIN version_inputs i ON i.dataset || '@' || i.version = chain.ref AND i.input_name IN ('init', 'models')
)
SELECT ref, max(depth) AS depth FROM chain GROUP BY ref ORDER BY depth DESC, ref
"""


def chain(ask: Ask, model: str) -> dict[str, int]:
    """The models of a training in order, the one that it ended in last, and how many came after each.

    As many come after all members of a mean.
    """
    return {row["ref"]: row["depth"] for row in ask(_CHAIN, model)}


def stage_section(ask: Ask, scores: Scores, system: str) -> Section | None:
    """The start and every model of the training that was evaluated, of a mean's members the best; None for but one."""
    of_model = {ref: name for name, ref in scores.models.items() if ref}
    depths = {of_model[ref]: depth for ref, depth in chain(ask, scores.models[system]).items() if ref in of_model}
    by_score = sorted(depths, key=lambda name: (-depths[name], scores.table[name][AVERAGE].mean))
    best = {depths[name]: name for name in by_score}
    names = [name for name in (scores.start_of(system),) if name] + list(best.values())
    if len(names) < 2:
        return None
    title = f"Stage by stage on {scores.set_name}"
    about = f"Average {scores.metric.upper()} over intents after each stage of the training, with its 95% interval."
    worth = []
    for old, new in zip(names, names[1:], strict=False):
        step = scores.against(new, old)
        worth.append(f"{step.gain:+.3f} ({step.low:+.2f} to {step.high:+.2f})")
    rows = [
        (name, interval_text(scores.table[name][AVERAGE]), *([gain] if gain else ["–"]))
        for name, gain in zip(names, ["", *worth], strict=True)
    ]
    table = Table(("stage", f"average {scores.metric.upper()}", "gain over the stage before"), rows)
    return Section(title, (about,), Chart(title, about, lambda w: _draw(scores, names, w)), table)


def _draw(scores: Scores, names: list[str], width: float) -> Figure:
    wide = width == DESK
    drawing = figure(width, 250)
    panel = axes(drawing, 44, 22, width - 64, 176)
    found = [scores.table[name][AVERAGE] for name in names]
    places = range(len(names))
    panel.fill_between(places, [s.low for s in found], [s.high for s in found], color=COLOUR["tint"], linewidth=0)
    panel.plot(places, [s.mean for s in found], color=COLOUR["accent"], linewidth=2)
    for place, score in zip(places, found, strict=True):
        panel.plot([place], [score.mean], "o", color=COLOUR["start" if place == 0 else "accent"], markersize=8)
        panel.annotate(
            f"{score.mean:.3f}", (place, score.mean), (0, 12), textcoords="offset points", ha="center",
            color=COLOUR["ink"], fontweight="bold",
        )  # fmt: skip
    low, high = min(s.low for s in found), max(s.high for s in found)
    panel.set_ylim(floor_of(low, 0.03), min(1.04, high + 0.05))
    panel.set_xlim(-0.35, len(names) - 0.65)
    panel.grid(axis="x", visible=False)
    labels = [name.partition("/")[2] or name for name in names]
    panel.set_xticks(places, labels if wide else [label.replace("finetune-", "fine\n") for label in labels])
    return drawing
