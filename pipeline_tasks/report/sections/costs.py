"""What a model cost: seconds, tokens and dollars of every step behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline_tasks.report.content import DESK, Chart, Section, Table
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COST = """
WITH RECURSIVE behind AS (
    SELECT dataset, version FROM versions WHERE dataset || '@' || version = ?
    UNION
    SELECT regexp_replace(input_dataset, '/rejects$', ''), input_version
    FROM behind JOIN version_inputs USING (dataset, version)
),
counted AS (
    SELECT run_id,
        max(value) FILTER (name = 'prompt_tokens') AS prompt_tokens,
        max(value) FILTER (name = 'completion_tokens') AS completion_tokens,
        max(value) FILTER (name = 'cost_usd') AS cost_usd,
        max(value) FILTER (name = 'texts_encoded') AS texts_encoded
    FROM counters GROUP BY run_id
)
SELECT s.step, sum(s.duration_s) AS seconds, count(*) AS n_runs,
    count(*) FILTER (s.status = 'failed') AS n_failed, coalesce(sum(prompt_tokens), 0)::BIGINT AS prompt_tokens,
    coalesce(sum(completion_tokens), 0)::BIGINT AS completion_tokens, coalesce(sum(cost_usd), 0) AS cost_usd,
    coalesce(sum(texts_encoded), 0)::BIGINT AS texts_encoded, max(peak_memory_bytes) AS peak_memory_bytes
FROM behind JOIN work USING (dataset, version) JOIN steps s USING (run_id) LEFT JOIN counted USING (run_id)
GROUP BY s.step ORDER BY min(s.started_at), s.step
"""
"""Behind it are also the versions that a dataset grew from: their runs paid for rows that it holds."""

_PAIRS = """
SELECT c.* FROM cost_by_intent() c
WHERE c.cost_usd > 0 AND EXISTS (
    FROM ancestors_of(?) JOIN versions USING (dataset, version) WHERE dataset = 'mtp' AND is_latest
)
"""


def cost_section(ask: Ask, ref: str) -> Section | None:
    """Every step behind ``ref`` and its own; None where no run is known."""
    rows = ask(_COST, ref)
    if not rows:
        return None
    seconds, dollars = sum(row["seconds"] or 0 for row in rows), sum(row["cost_usd"] for row in rows)
    tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
    title = "Cost and time"
    about = (
        f"All steps behind this together: {duration(seconds)} of work, {tokens:,} tokens, ${dollars:,.2f}. Counted "
        "are the runs that built a version, those over groups of its parts, those that bought answers by batches, and "
        "those that failed before. A run that was killed tells nothing of what it did; what it paid for answers that "
        "are in rows now is part of cost_of."
    )
    of_llm = ("prompt tokens", "completion tokens", "dollars")
    head = ("step", "runs", "failed", "time", *of_llm, "texts encoded", "peak memory")
    table = [
        (row["step"], f"{row['n_runs']:,}", f"{row['n_failed']:,}", duration(row["seconds"] or 0))
        + (f"{row['prompt_tokens']:,}", f"{row['completion_tokens']:,}", f"{row['cost_usd']:,.2f}")
        + (f"{row['texts_encoded']:,}", f"{(row['peak_memory_bytes'] or 0) / (1 << 20):,.0f} MiB")
        for row in rows
    ]
    return Section(title, (about,), Chart(title, about, lambda w: _draw(rows, w)), Table(head, table))


def pair_cost_section(ask: Ask, ref: str) -> Section | None:
    """What an LLM's pair cost, by intent; None where nothing was paid, or ``ref`` is not of the latest pairs."""
    rows = ask(_PAIRS, ref)
    if not rows:
        return None
    about = (
        "Dollars for the answers behind the pairs of an intent, over the pairs that stayed. Answers that no row names, "
        "since they were refused or asked for again, are shared among the intents as their answers are; of parts that "
        "were made before receipts named such answers, each is taken to be the mean of its intent's."
    )
    table = [
        (row["intent"], f"{row['n_answers']:,}", f"{row['n_pairs']:,}", f"{row['cost_usd']:,.2f}")
        + ("" if row["usd_per_pair"] is None else f"{row['usd_per_pair']:.5f}",)
        for row in rows
    ]
    head = ("intent", "answers", "pairs that stayed", "dollars", "dollars a pair")
    return Section("What a pair cost", (about,), table=Table(head, table))


def duration(seconds: float) -> str:
    """``8.1 s``, ``3 min 20 s`` or ``2.5 h``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{seconds / 3600:.1f} h"


def _draw(rows: list[dict[str, Any]], width: float) -> Figure:
    label = 190
    drawing = figure(width, 24 * len(rows) + 14)
    panel = axes(drawing, label, 4, (width - label) * (0.6 if width == DESK else 0.55), 24 * len(rows))
    most = max(row["seconds"] or 0 for row in rows) or 1
    for place, row in enumerate(rows):
        seconds = row["seconds"] or 0
        panel.barh([place], [seconds], height=0.62, color=COLOUR["accent"], linewidth=0)
        tokens = row["prompt_tokens"] + row["completion_tokens"]
        said = duration(seconds)
        if tokens and width == DESK:
            said += f" · {tokens:,} tokens · ${row['cost_usd']:,.2f}"
        panel.text(seconds + most * 0.02, place, said, va="center", color=COLOUR["ink"])
    panel.set_xlim(0, most)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_yticks(range(len(rows)), [row["step"] for row in rows])
    for text in panel.get_yticklabels():
        text.set_color(COLOUR["ink"])
    panel.set_xticks([])
    panel.grid(visible=False)
    panel.spines["bottom"].set_visible(False)
    return drawing
