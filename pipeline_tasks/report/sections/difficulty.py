"""How hard the negatives of each build of triplets are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline_tasks.report.content import Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATIOS = """
WITH alphas AS (SELECT dataset, version, TRY_CAST(value AS DOUBLE) AS alpha FROM params WHERE name = 'alpha'),
ratios AS (
    SELECT dataset, query_id, unnest(negative_scores) / positive_score AS ratio FROM all_triplets
    WHERE positive_score > 0
)
SELECT v.dataset || '@' || v.version AS ref, v.dataset, any_value(a.alpha) AS alpha, v.rows AS n_triplets,
    count(*) AS n_negatives, quantile_cont(ratio, [0.05, 0.25, 0.5, 0.75, 0.95]) AS shares
FROM ancestors_of(?) JOIN versions v USING (dataset, version) JOIN ratios r ON r.dataset = v.dataset
LEFT JOIN alphas a ON a.dataset = v.dataset AND a.version = v.version
WHERE v.is_latest GROUP BY v.dataset, v.version, v.rows ORDER BY alpha, v.dataset
"""


def difficulty_section(ask: Ask, ref: str) -> Section | None:
    """The builds that ``ref`` learned from, where they are the latest of their name; None where there are none."""
    builds = ask(_RATIOS, ref)
    if not builds:
        return None
    title = "Difficulty of the negatives"
    about = (
        "Cosine of a hard negative as a share of its positive's: the middle half of all negatives is the thick line, "
        "90% the thin one, the point the median. The tick is alpha, the most that was allowed."
    )
    head = ("build", "alpha", "triplets", "negatives", "5%", "25%", "median", "75%", "95%")
    rows = [
        (Version(b["ref"]), "" if b["alpha"] is None else f"{b['alpha']:g}", f"{b['n_triplets']:,}")
        + (f"{b['n_negatives']:,}", *(f"{share:.3f}" for share in b["shares"]))
        for b in builds
    ]
    return Section(title, (about,), Chart(title, about, lambda w: _draw(builds, w)), Table(head, rows), in_short=False)


def _draw(builds: list[dict[str, Any]], width: float) -> Figure:
    label = 9 + 7.6 * max(len(b["dataset"]) for b in builds)
    drawing = figure(width, 40 * len(builds) + 56)
    panel = axes(drawing, label, 10, width - label - 20, 40 * len(builds))
    for place, build in enumerate(builds):
        low, first, middle, third, high = build["shares"]
        panel.plot([low, high], [place, place], color=COLOUR["second"], linewidth=1.5)
        panel.plot([first, third], [place, place], color=COLOUR["second"], linewidth=9, alpha=0.45)
        panel.plot([middle], [place], "o", color=COLOUR["second"], markersize=8)
        if build["alpha"] is not None:
            panel.plot([build["alpha"]] * 2, [place - 0.3, place + 0.3], color=COLOUR["refused"], linewidth=2.5)
    panel.set_ylim(len(builds) - 0.4, -0.6)
    panel.set_yticks(range(len(builds)), [b["dataset"] for b in builds])
    for text in panel.get_yticklabels():
        text.set_color(COLOUR["ink"])
    panel.set_xlim(min(0.0, *(b["shares"][0] for b in builds)), 1)
    panel.grid(axis="y", visible=False)
    panel.set_xlabel("share of the positive's cosine", loc="right")
    return drawing
