"""Which tasks a language model thought of for FRet: how many differ, and clusters of those that do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.report.content import Chart, Section, Table
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure
from pipeline_tasks.texts import latent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE = 10_000
"""Distinct tasks that are clustered at most."""
MOST = 12
"""Clusters at most: what a reader takes in."""
_SEED, _ROW, _LETTER = 0, 46, 7.4
_BEHIND = """
SELECT dataset FROM versions JOIN ancestors_of(?) USING (dataset, version)
WHERE is_latest AND rows > 0 AND dataset IN ('mtp/fret', 'mtp/fret/checked') ORDER BY dataset DESC LIMIT 1
"""
_TASKS = r"""
WITH told AS (SELECT instruction FROM "{}" WHERE regexp_matches(instruction, '[\p{{L}}\p{{N}}]')),
distinct_tasks AS (
    SELECT trim(regexp_replace(lower(instruction), '[^\p{{L}}\p{{M}}\p{{N}}_]+', ' ', 'g')) AS words,
        min(instruction) AS task, count(*) AS n_queries
    FROM told GROUP BY words
)
SELECT task, n_queries, count(*) OVER () AS n_distinct, sum(n_queries) OVER () AS n_told
FROM distinct_tasks ORDER BY sha256(words) LIMIT ?
"""


@dataclass(frozen=True)
class Cluster:
    """Tasks that share words.

    Attributes:
        typical: the task nearest to the centre.
        n_tasks: distinct tasks.
        n_queries: queries that have one of them.
    """

    typical: str
    n_tasks: int
    n_queries: int


def clustered(tasks: Sequence[str], n_queries: Sequence[int]) -> list[Cluster]:
    """Clusters of distinct tasks, the largest first; empty ones are left out.

    They are sqrt(tasks / 2), a rule of thumb, and ``MOST`` at most.
    """
    of = latent.by_words(tasks, _SEED)
    near = of @ latent.centres(of, min(MOST, ceil((len(tasks) / 2) ** 0.5)), _SEED).T
    nearest, queries, found = near.argmax(axis=1), np.asarray(n_queries), []
    for number in np.unique(nearest):
        within = np.flatnonzero(nearest == number)
        typical = tasks[within[near[within, number].argmax()]]
        found.append(Cluster(typical, len(within), int(queries[within].sum())))
    return sorted(found, key=lambda cluster: (-cluster.n_tasks, cluster.typical))


def task_section(ask: Ask, ref: str) -> Section | None:
    """FRet's tasks behind ``ref``, of those that passed the gate where they had to; None where there are none.

    A dataset counts where its version is the latest of its name. Source: Gecko 3.2, whose tasks are free text.
    """
    (name,) = [row["dataset"] for row in ask(_BEHIND, ref)] or [""]
    drawn = ask(_TASKS.format(name), SAMPLE) if name else []
    if not drawn:
        return None
    found = clustered([row["task"] for row in drawn], [row["n_queries"] for row in drawn])
    n_told, n_distinct = int(drawn[0]["n_told"]), drawn[0]["n_distinct"]
    asked = sum(cluster.n_queries for cluster in found)
    all_or_some = f"{len(drawn):,} of them, drawn by a hash of their words" if len(drawn) < n_distinct else "all"
    title = "Tasks that a language model thought of"
    words = (
        f"{name}: {n_told:,} tasks, one a query; {n_distinct:,} of them differ by more than case and punctuation.",
        f"Distinct tasks by the words that they share ({all_or_some}): clusters by k-means of their vectors (latent "
        f"semantic analysis), each with the task nearest to its centre, and its share of the distinct tasks.",
    )
    rows = [
        (c.typical, f"{c.n_tasks:,}", f"{c.n_tasks / len(drawn):.1%}", f"{c.n_queries:,}", f"{c.n_queries / asked:.1%}")
        for c in found
    ]
    table = Table(("a typical task", "distinct tasks", "share", "queries", "share of queries"), rows)
    chart = Chart(title, words[1], lambda width: _draw(found, len(drawn), width))
    return Section(title, words, chart, table, in_short=False)


def _draw(found: Sequence[Cluster], total: int, width: float) -> Figure:
    drawing = figure(width, _ROW * len(found) + 8)
    panel = axes(drawing, 0, 4, width - 60, _ROW * len(found))
    most = int((width - 10) / _LETTER)
    for place, cluster in enumerate(found):
        share, task = cluster.n_tasks / total, " ".join(cluster.typical.split())
        panel.barh([place + 0.2], [share], height=0.3, color=COLOUR["accent"])
        panel.text(0, place - 0.08, task if len(task) <= most else f"{task[:most]}…", color=COLOUR["ink"])
        panel.annotate(f"{share:.1%}", (share, place + 0.2), (6, 0), textcoords="offset points", va="center")
    panel.set_xlim(0, found[0].n_tasks / total)
    panel.set_ylim(len(found) - 0.5, -0.5)
    panel.set_axis_off()
    return drawing
