"""The report of one run: a trained model, how good it is and whether that is luck, and what it was made of."""

from __future__ import annotations

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.report.answer import rivals
from pipeline_tasks.report.content import Report, Section, Version
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.luck import in_short, p_of
from pipeline_tasks.report.sections.by_intent import score_section
from pipeline_tasks.report.sections.costs import cost_section, pair_cost_section
from pipeline_tasks.report.sections.curves import curve_section
from pipeline_tasks.report.sections.differences import difference_section
from pipeline_tasks.report.sections.difficulty import difficulty_section
from pipeline_tasks.report.sections.diversity import diversity_section
from pipeline_tasks.report.sections.flow import flow_section
from pipeline_tasks.report.sections.geometry import geometry_section
from pipeline_tasks.report.sections.influences import influence_section
from pipeline_tasks.report.sections.instruction_map import instruction_map_section
from pipeline_tasks.report.sections.queries import query_section
from pipeline_tasks.report.sections.relabelling import relabelling_section
from pipeline_tasks.report.sections.sampling import sampling_section
from pipeline_tasks.report.sections.seeds import seed_section
from pipeline_tasks.report.sections.settings import settings_section
from pipeline_tasks.report.sections.sizes import size_section
from pipeline_tasks.report.sections.stages import chain, stage_section
from pipeline_tasks.report.sections.systems import system_section
from pipeline_tasks.report.sections.tasks import task_section
from pipeline_tasks.report.subject import Ask, Subject, lineage, subject

_MADE = "SELECT strftime(created_at, '%Y-%m-%d %H:%M UTC') AS at, step FROM versions WHERE dataset = ? AND version = ?"


def run_report(store: Store, name: str | None = None) -> Report:
    """What is known of the evaluation or the model ``name``; without one, of the newest evaluation.

    Raises:
        InputError: there is none, or ``name`` is something else.
    """
    with lineage(store) as ask:
        about = subject(store, ask, name)
        evaluations = [read(ask, ref) for ref in about.evaluations]
        groups = [(f"On {one.set_name}", _of_set(store, ask, one, about, i > 0)) for i, one in enumerate(evaluations)]
        groups.append(("How it was made", _made(ask, about)))
        answer, numbers = _answer(ask, evaluations, about)
        return Report(_title(about), answer, numbers, _facts(ask, about), [g for g in groups if g[1]])


def _title(about: Subject) -> str:
    return about.system or Ref.parse(about.newest_work).dataset


def _of_set(store: Store, ask: Ask, scores: Scores, about: Subject, answered: bool) -> list[Section]:
    """The sections of one set; ``answered``: with the answer that the first set has above all sections."""
    system = scores.called(about.model)
    shown = system or next(iter(scores.table))
    answer = [rival.words for rival in rivals(ask, scores, system)] if system and answered else []
    sections = [
        score_section(scores, system, answer),
        difference_section(scores, shown),
        system_section(ask, scores),
        geometry_section(ask, scores, shown),
        seed_section(store, scores, shown),
        settings_section(ask, scores, shown),
        stage_section(ask, scores, system) if system else None,
        size_section(scores, system),
        query_section(store, ask, scores, shown),
    ]
    return [section for section in sections if section]


def _made(ask: Ask, about: Subject) -> list[Section]:
    ref = about.newest_work
    trained = list(chain(ask, about.model)) if about.model else []
    found = [
        flow_section(ask, ref),
        task_section(ask, ref),
        relabelling_section(ask, ref),
        diversity_section(ask, ref),
        instruction_map_section(ask, ref),
        difficulty_section(ask, ref),
        curve_section(ask, trained),
    ]
    found += [cost_section(ask, ref), sampling_section(ask, trained), influence_section(ask, trained)]
    found.append(pair_cost_section(ask, ref))
    return [section for section in found if section]


def _answer(ask: Ask, evaluations: list[Scores], about: Subject) -> tuple[list[str], list[tuple[str, str, str]]]:
    """By the first evaluation, in words and in the few numbers that the first screen shows."""
    if not evaluations:
        return [f"{about.model} was not evaluated yet: run evaluate_retriever."], []
    scores = evaluations[0]
    system = scores.called(about.model)
    if not system:
        best = next(iter(scores.table))
        return [f"No trained model is in this evaluation. Best is {best}."], [_number(scores, best, best)]
    found = rivals(ask, scores, system)
    numbers = [_number(scores, system, f"{scores.metric.upper()} on {scores.set_name}")]
    for rival in found:
        d = rival.difference
        numbers.append((f"against {rival.name}", f"{d.gain:+.3f}", f"{in_short(d)}, p {p_of(d)}, n={d.n:,}"))
    return [rival.words for rival in found], numbers


def _number(scores: Scores, system: str, label: str) -> tuple[str, str, str]:
    score = scores.table[system][AVERAGE]
    return label, f"{score.mean:.3f}", f"95% interval {score.low:.3f} to {score.high:.3f}, n={score.n:,}"


def _facts(ask: Ask, about: Subject) -> list[tuple[str, Version, str]]:
    named = [("Model", about.model)] if about.model else []
    facts = []
    for label, name in (*named, *(("Evaluation", ref) for ref in about.evaluations)):
        ref = Ref.parse(name)
        made = [f"{row['at']} by {row['step']}" for row in ask(_MADE, ref.dataset, ref.version)]
        facts.append((label, Version(name), "".join(made)))
    return facts
