"""The report across runs: every version that was trained, over time, on every set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import Store
from pipeline_tasks.evaluation.scores import Score, Scores
from pipeline_tasks.evaluation.statistics import Difference
from pipeline_tasks.report.content import DESK, Chart, Report, Section, Table, Version
from pipeline_tasks.report.evaluations import ground, read
from pipeline_tasks.report.luck import ELSEWHERE, in_short, in_words, p_of
from pipeline_tasks.report.names import interval_text
from pipeline_tasks.report.subject import lineage
from pipeline_tasks.report.theme import COLOUR, axes, figure, floor_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VERSIONS = """
SELECT e.dataset || '@' || e.version AS evaluation, e.dataset, split_part(e.system, '@', 1) AS name, e.system,
    e.model_version, m.created_at AS at
FROM evaluated_queries e
JOIN versions v USING (dataset, version)
JOIN versions m ON m.dataset || '@' || m.version = e.model_version
GROUP BY e.dataset, e.version, e.system, e.model_version, m.created_at, v.created_at
QUALIFY row_number() OVER (PARTITION BY e.dataset, e.model_version ORDER BY v.created_at DESC, e.version) = 1
ORDER BY e.dataset, name, m.created_at, e.model_version
"""
_LATEST = "SELECT dataset || '@' || version AS ref FROM versions WHERE is_latest AND dataset LIKE 'eval/%' ORDER BY ref"
_OTHER = "the last two versions were asked other queries, or scored by other measures"


@dataclass(frozen=True)
class Trained:
    """A trained version, when it was made, and the last evaluation that has it, with its name there and its ground."""

    at: datetime
    model: str
    scores: Scores
    system: str
    ground: frozenset[tuple[str, str]]

    @cached_property
    def score(self) -> Score:
        """Its average over intents, with its interval."""
        return self.scores.score(self.system)

    def against(self, before: Trained) -> Difference | None:
        """How it differs from an earlier version; None where they share no query, or no metric."""
        if before.scores.metric != self.scores.metric or not self.scores.intents.keys() & before.scores.intents.keys():
            return None
        return self.scores.against(self.system, before.system, before.scores)


def history_report(store: Store) -> Report:
    """Every evaluated version of every system, set by set, each compared with the one before.

    Raises:
        InputError: nothing that was trained here has been evaluated.
    """
    with lineage(store) as ask:
        rows = ask(_VERSIONS)
        if not rows:
            raise InputError("no trained model was evaluated yet; run evaluate_retriever first")
        refs = {row["evaluation"] for row in rows}
        known = {ref: read(ask, ref) for ref in refs}
        grounds = {ref: ground(ask, ref) for ref in refs}
        words, groups = [], []
        for dataset, mine in groupby(rows, key=itemgetter("dataset")):
            systems: dict[str, list[Trained]] = {}
            for row in mine:
                of = row["evaluation"]
                found = Trained(row["at"], row["model_version"], known[of], row["system"], grounds[of])
                systems.setdefault(row["name"], []).append(found)
            name = dataset.removeprefix("eval/")
            words.append(_newest(name, systems))
            groups.append((f"On {name}", [_section(name, systems)]))
        facts = [("Latest", Version(row["ref"]), "") for row in ask(_LATEST)]
        return Report("All versions", words, [], facts, groups)


def _newest(name: str, systems: dict[str, list[Trained]]) -> str:
    """Of a set, the version that was trained last against the one before."""
    system, found = max(systems.items(), key=lambda item: (len(item[1]) > 1, item[1][-1].at))
    if len(found) < 2:
        return f"On {name}, no system has two versions yet."
    change = found[-1].against(found[-2])
    other = f"its version before{ELSEWHERE * (found[-1].ground != found[-2].ground)}"
    return f"On {name}: {in_words(system, other, change)}" if change else f"On {name}, {_OTHER}."


def _section(name: str, systems: dict[str, list[Trained]]) -> Section:
    metric = max((one for found in systems.values() for one in found), key=lambda one: one.at).scores.metric.upper()
    title = f"Versions over time on {name}"
    about = f"Average {metric} of every trained version, oldest left, with its 95% interval; dashed, its start."
    head = ("system", "trained", f"average {metric}", "n", "against the one before", "it is", "version", "evaluation")
    rows = []
    for system, found in sorted(systems.items()):
        for before, one in zip([None, *found], found, strict=False):
            change = one.against(before) if before else None
            luck = (f"{change.gain:+.3f}", f"{in_short(change)}, p {p_of(change)}") if change else ("", "")
            if before and change and before.ground != one.ground:
                luck = luck[0], f"{luck[1]};{ELSEWHERE}"
            score, own = one.score, one.scores.metric.upper()
            interval = interval_text(score) + (f" by {own}" if own != metric else "")
            cells = (system, f"{one.at:%Y-%m-%d %H:%M}", interval, f"{score.n:,}", *luck)
            rows.append((*cells, Version(one.model), Version(one.scores.ref)))
    table = Table(head, rows, frozenset({0, 1, 5, 6, 7}))
    return Section(title, (about,), Chart(title, about, lambda width: _draw(systems, width)), table)


def _draw(systems: dict[str, list[Trained]], width: float) -> Figure:
    """Small panels, one a system, on one scale."""
    from matplotlib.ticker import MaxNLocator

    abreast = 3 if width == DESK else 2
    names = sorted(systems)
    lines = -(-len(names) // abreast)
    each, block = width / abreast, 190
    drawing = figure(width, lines * block)
    scores = [one.score for name in names for one in systems[name]]
    low, high = floor_of(min(s.low for s in scores), 0.02), min(1, max(s.high for s in scores) + 0.03)
    for i, name in enumerate(names):
        panel = axes(drawing, 38 + (i % abreast) * each, 30 + (i // abreast) * block, each - 56, block - 66)
        found = [one.score for one in systems[name]]
        places = range(1, len(found) + 1)
        panel.fill_between(places, [s.low for s in found], [s.high for s in found], color=COLOUR["tint"], linewidth=0)
        panel.plot(places, [s.mean for s in found], "o-", color=COLOUR["accent"], markersize=6.5, linewidth=2)
        last, system = systems[name][-1].scores, systems[name][-1].system
        if start := last.start_of(system):
            level = last.score(start).mean
            panel.axhline(level, color=COLOUR["start"], linestyle=(0, (4, 4)), linewidth=1.5)
        panel.set_ylim(low, high)
        panel.set_xlim(0.7, len(found) + 0.3)
        panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        panel.grid(axis="x", visible=False)
        panel.set_title(name)
    return drawing
