"""What several systems answer to one question, and why each passage is there."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.ask.quotes import nearest
from pipeline_tasks.ask.systems import System
from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.uses import no_uses, page_starts, trained_on, uses
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known

LONGEST_QUESTION = 2000
MOST_HITS = 50


@dataclass(frozen=True)
class Hit:
    """A passage that a system found.

    Attributes:
        passage_id: which.
        rank: 1-based.
        score: what the system gives it.
        quote: the sentence of it that the system finds nearest to the question.
        seen: what it was in the training of this system: ``source`` of a pair, ``positive``, ``negative``.
    """

    passage_id: str
    rank: int
    score: float
    quote: str
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """What one system answers.

    Attributes:
        system: its name.
        version: the version that it is; empty for what is none.
        unit: of its scores.
        seconds: of search alone, the question's vector included.
        trained_on: versions of pairs and triplets behind it.
        hits: best first.
    """

    system: str
    version: str
    unit: str
    seconds: float
    trained_on: tuple[str, ...]
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Answer:
    """All that a page or a terminal shows of one question.

    Attributes:
        question: as it was asked.
        intent: whose instruction stood before it.
        corpus: the version of the passages.
        columns: one per system.
        passages: id -> its row, the pages it is on, and under ``uses`` what was made of it.
        note: why nothing is known of uses, which are empty then; empty where they are known.
    """

    question: str
    intent: str
    corpus: str
    columns: tuple[Column, ...]
    passages: dict[str, dict[str, Any]]
    note: str = ""


def checked_question(question: str, intent: str) -> str:
    """The question on one line.

    Raises:
        InputError: it is blank or too long, or the domain has no such intent.
    """
    text = " ".join(question.split())
    if not text:
        raise InputError("the question is blank: ask something")
    if len(text) > LONGEST_QUESTION:
        raise InputError(f"the question has {len(text):,} characters: at most {LONGEST_QUESTION:,} are asked")
    check_known(domain_folder(), intent)
    return text


def answer(corpus: Corpus, reader: Reader, systems: Sequence[System], question: str, intent: str, most: int) -> Answer:
    """The ``most`` best passages of each system, with where they come from and what was made of them.

    The last takes a look at every training row: where that fails, the passages are there, and a note says why.

    Raises:
        InputError: the question, its intent or ``most`` is none that can be asked.
    """
    text = checked_question(question, intent)
    if not 1 <= most <= MOST_HITS:
        raise InputError(f"{most} passages cannot be shown: ask for 1 to {MOST_HITS}")
    found = [_timed_search(system, text, intent, most) for system in systems]
    ids = {i for _, hits in found for i, _ in hits}
    passages = {i: corpus.passage(i) for i in sorted(ids)}
    try:
        used, note = uses(reader, ids), ""
    except FoundryError as error:
        used, note = {i: no_uses() for i in ids}, f"what was made of these passages is not known: {error}"
    starts = page_starts(reader, {row["doc_id"] for row in passages.values()})
    for i, row in passages.items():
        row |= {"last_page": _last_page(row, starts.get(row["doc_id"], [])), "uses": used[i]}
    columns = []
    for system, (seconds, hits) in zip(systems, found, strict=True):
        behind = trained_on(reader, system.ref) if system.ref else []
        (quotes,) = nearest(system, [text], [intent], [[passages[i]["text"] for i, _ in hits]])
        shown = tuple(
            Hit(i, rank, score, quote, training_uses(used[i], behind))
            for rank, ((i, score), quote) in enumerate(zip(hits, quotes, strict=True), 1)
        )
        refs = tuple(f"{row['dataset']}@{row['version']}" for row in behind)
        columns.append(Column(system.name, str(system.ref or ""), system.unit, seconds, refs, shown))
    return Answer(text, intent, str(corpus.manifest.ref), tuple(columns), passages, note)


def _timed_search(system: System, question: str, intent: str, most: int) -> tuple[float, list[tuple[str, float]]]:
    """Seconds, and ids with their scores, best first."""
    begun = time.perf_counter()
    places, scores = system.search([question], [intent], most)
    seconds = time.perf_counter() - begun
    there = places[0] >= 0
    ids = system.corpus.rows["passage_id"].take(places[0][there]).to_pylist()
    return seconds, [(i, float(score)) for i, score in zip(ids, scores[0][there], strict=True)]


def training_uses(used: dict[str, dict[str, Any]], behind: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """What a passage was in the training of a model, by its uses and by what the model was made from.

    Of a dataset only the latest version is looked at: uses are known of no other.
    """
    latest = {row["dataset"] for row in behind if row["is_latest"]}
    kinds = [name for name in ("positive", "negative") if latest.intersection(used[name]["of"])]
    has_pairs = any(row["rows_schema"] == "pairs" and row["is_latest"] for row in behind)
    if has_pairs and "train" in used["written"]["of"]:
        kinds.insert(0, "source")
    return tuple(kinds)


def _last_page(row: dict[str, Any], starts: Sequence[int]) -> int | None:
    """The page, 1-based, that holds the passage's last character."""
    return max(row["page"] or 1, bisect_right(starts, max(row["end_char"] - 1, 0))) if starts else row["page"]
