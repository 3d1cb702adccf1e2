"""Queries whose seed is the best passage, and some whose seed is not: what relabelling is measured on.

A town's notices each state one fact, or speak of it and leave it open. A query asks for a fact. Its candidates are the
notice that states it, the one that leaves it open, notices of the same town on other matters, and of other towns on the
same. Of every 20 queries three have the open notice as their seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.ids import seed_of

TOWNS = {
    "test": (
        "Aldermoor", "Brackwater", "Carrow", "Dunmere", "Eastfold", "Farleigh", "Gorsebank", "Hallin", "Inverbeck",
        "Keld", "Lathbury", "Marrowby", "Netherfen", "Oxmere", "Pelsham", "Quarnford", "Ravenside", "Stanway",
        "Thornlea", "Upwell",
    ),
    "dev": ("Ashcombe", "Birkfell", "Cold Aston", "Drayholm", "Elmstow", "Foxgrove", "Grimley", "Harwood"),
}  # fmt: skip
MATTERS = {
    "test": {
        "at what level of the river do the flood gates close in {}": (
            "The flood gates of {} close when the river stands at {} metres.",
            "The flood gates of {} close when the river is high. The level is set every spring by the council.",
            ("two", "three", "four", "five"),
        ),
        "where can people from {} sleep during an evacuation": (
            "During an evacuation people from {} can sleep in the {}.",
            "People from {} should think before an evacuation of where they could sleep, and of what they take along.",
            ("sports hall", "old brewery", "school of the next village", "railway museum"),
        ),
        "which signal of the siren means all clear in {}": (
            "In {} the siren means all clear with {}.",
            "The siren of {} has three signals. Everybody should know which of them means all clear.",
            ("one long tone", "two short tones", "a rising tone", "a minute of silence between two tones"),
        ),
        "what must be done with drinking water in {} after a flood": (
            "After a flood the drinking water in {} must be {}.",
            "After a flood the works of {} look at the drinking water first, and say what must be done with it.",
            ("boiled for ten minutes", "fetched from tankers", "filtered and left to stand", "bought in bottles"),
        ),
        "who decides in {} that a road is closed": (
            "In {} it is the {} who decides that a road is closed.",
            "Whoever drives through {} in a storm finds closed roads. The decision is made within minutes.",
            ("mayor", "fire chief", "head of the road works", "duty officer of the police"),
        ),
    },
    "dev": {
        "when is the sand for sandbags handed out in {}": (
            "In {} sand for sandbags is handed out {}.",
            "Sand for sandbags is there for all of {}. When it is handed out stands on the board of the town hall.",
            ("on Monday mornings", "every evening at six", "from the first warning on", "on the first Saturday"),
        ),
        "how many people does the shelter of {} hold": (
            "The shelter of {} holds {} people.",
            "The shelter of {} was built anew, and it was long argued how many people it should hold.",
            ("forty", "ninety", "two hundred", "six hundred"),
        ),
        "which bridge of {} is closed first when the water rises": (
            "When the water rises in {} the {} is closed first.",
            "The bridges of {} are closed one after the other when the water rises, in the order of a list.",
            ("mill bridge", "footbridge at the weir", "old stone bridge", "railway bridge"),
        ),
        "what number do people in {} call to report a gas leak": (
            "To report a gas leak people in {} call {}.",
            "Whoever smells gas in {} should open windows, leave the house and call to report it.",
            ("0700 11", "the number 1717", "555 020", "the fire station at 118"),
        ),
        "who looks after animals from {} during a wildfire": (
            "During a wildfire the {1} looks after animals from {0}.",
            "During a wildfire nobody in {} should go back for animals; they are looked after.",
            ("riding club", "vet of the next town", "animal home", "farmers' union"),
        ),
    },
}
"""Question -> the notice that states the fact, the one that leaves it open, and what the fact may be; of each split."""
TASK = "Given a question, find a passage that answers it."
BAD_OF_20 = 3


class Query(NamedTuple):
    """A question, its candidates, and where among them its seed and its best passage are."""

    text: str
    candidates: list[str]
    seed: int
    best: int


def planted(n: int, n_candidates: int, seed: int, split: str = "test") -> list[Query]:
    """``n`` queries, of which 15 of 100 have a seed that leaves open what is asked.

    The splits have no town and no question in common: what a judge needs is chosen on ``dev``.
    """
    chance = np.random.default_rng(seed)
    towns, matters = TOWNS[split], MATTERS[split]
    asked = [(town, question) for question in matters for town in towns]
    found = []
    for number, at in enumerate(chance.permutation(len(asked))[:n]):
        town, question = asked[at]
        others = [_statement(town, other, matters) for other in matters if other != question]
        others += [_statement(other, question, matters) for other in towns if other != town]
        drawn = [others[i] for i in chance.permutation(len(others))[: n_candidates - 2]]
        texts = [_statement(town, question, matters), matters[question][1].format(town), *drawn]
        order = chance.permutation(len(texts)).tolist()
        is_bad = number % 20 < BAD_OF_20
        found.append(Query(question.format(town), [texts[i] for i in order], order.index(int(is_bad)), order.index(0)))
    return found


def _statement(town: str, question: str, matters: Mapping[str, tuple[str, str, tuple[str, ...]]]) -> str:
    full, _, values = matters[question]
    return full.format(town, values[seed_of(town, question) % len(values)])


def compare_seeds(queries: list[Query], chosen: list[int]) -> dict[str, float]:
    """Shares of queries: bad seeds that gave way to the best passage, good ones that were lost, positives changed."""
    bad = [(q, place) for q, place in zip(queries, chosen, strict=True) if q.seed != q.best]
    good = [(q, place) for q, place in zip(queries, chosen, strict=True) if q.seed == q.best]
    return {
        "found": sum(place == q.best for q, place in bad) / max(1, len(bad)),
        "spoiled": sum(place != q.best for q, place in good) / max(1, len(good)),
        "changed": sum(place != q.seed for q, place in (*bad, *good)) / len(queries),
    }
