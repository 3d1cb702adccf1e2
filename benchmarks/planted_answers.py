"""Answers of ten bad kinds, made by rule from pairs that are good: what the checks of written pairs are measured on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.synthesis.checking.phrases import DENIAL
from pipeline_tasks.synthesis.checking.wording import figures_of


@dataclass(frozen=True)
class Pair:
    """A pair and where it comes from."""

    intent: str
    query: str
    positive: str
    passage: str
    document: str
    need: str = ""

    @property
    def answer(self) -> str:
        """The pair as a model would answer."""
        return json.dumps({"query": self.query, "positive": self.positive}, ensure_ascii=False)


@dataclass(frozen=True)
class Bad:
    """An answer that has to be refused.

    Attributes:
        kind: of fault.
        source: intent and passage that were asked about.
        answer: what was answered.
        reasons: those that name the fault.
    """

    kind: str
    source: Pair
    answer: str
    reasons: tuple[str, ...]


FOREIGN = (
    "¿Qué deben hacer las familias cuando suena la sirena y el río empieza a subir cerca de la casa?",
    "Les habitants doivent quitter la zone dès que les autorités le demandent et suivre les routes indiquées.",
    "Die Feuerwehr bittet alle Anwohner, die Fenster zu schließen und das Haus nicht zu verlassen.",
    "As famílias devem guardar água e alimentos para três dias em uma caixa que não fique no chão.",
    "Il sindaco ha chiesto agli abitanti di non usare la strada del ponte che è stata chiusa per la piena.",
    "De gemeente vraagt om het water te koken en niet uit de kraan te drinken van het weekend.",
    "Жителям следует покинуть подвальные помещения до того, как вода поднимется выше порога.",
    "地震发生后应立即远离窗户，并检查家中的燃气和电线是否损坏。",
)
REFUSALS = (
    "I'm sorry, but I can't help with that request about emergency plans.",
    "As an AI language model, I do not write posts of this kind for people.",
    "I apologize, but I must decline to write about this subject for anybody.",
    "There is not enough information provided to write an answer for this reader.",
    "We are unable to comply, since my guidelines do not allow such content.",
)
BOILERPLATE = (
    "Sure! {}",
    "Here is a query that meets the need: {}",
    "Query: {}",
    "**Generated query**: {}",
    "The following is what a user might type: {}",
    "{} I hope this helps the reader in [your city] to prepare.",
)
BOUND = (
    "According to the passage, {}",
    "{} Answer from the text above.",
    "In this document, {}",
    "{} Summarize the second paragraph.",
    "{} (as mentioned above)",
    "Based on the given text, {}",
)
PER_INTENT = 5


def bad_answers(pairs: Sequence[Pair]) -> Iterator[Bad]:
    """Thirty answers of each kind, as evenly over the intents as the kind allows, each from a pair of its own."""
    turns = {intent: _in_turn(pairs, intent) for intent in dict.fromkeys(pair.intent for pair in pairs)}
    for kind, (spoil, reasons) in KINDS.items():
        for left in turns.values():
            for number in range(PER_INTENT):
                pair = next(left)
                yield Bad(kind, pair, spoil(pair, number), reasons)
    for intent, spoil, reason, fits in AT_ODDS:
        fitting = (pair for pair in turns[intent] if fits(pair))
        for _ in range(3 * PER_INTENT):
            pair = next(fitting)
            yield Bad("at_odds", pair, spoil(pair).answer, (reason,))


def strangers(pairs: Sequence[Pair]) -> Iterator[Bad]:
    """Five pairs of each intent on a passage of another document."""
    for intent in dict.fromkeys(pair.intent for pair in pairs):
        drawn = list(_in_turn(pairs, intent))[-40:]
        for pair in drawn[:PER_INTENT]:
            other = next(other for other in drawn[PER_INTENT:] if other.document != pair.document)
            source = replace(pair, passage=other.passage)
            yield Bad("unsupported", source, pair.answer, ("off_passage",))


def _in_turn(pairs: Sequence[Pair], intent: str) -> Iterator[Pair]:
    mine = [pair for pair in pairs if pair.intent == intent]
    return iter(sorted(mine, key=lambda pair: unit_hash("planted", pair.query, pair.positive)))


def _schema(pair: Pair, number: int) -> str:
    return (
        pair.answer[: len(pair.answer) * 2 // 3],
        json.dumps({"query": pair.query}),
        json.dumps({"query": pair.query, "positive": [pair.positive]}),
        json.dumps({"question": pair.query, "answer": pair.positive}),
        f"{pair.query}\n{pair.positive}",
    )[number]


def _foreign(pair: Pair, number: int) -> str:
    text = FOREIGN[int(unit_hash(pair.query) * len(FOREIGN))]
    return replace(pair, **{("query", "positive")[number % 2]: text}).answer


def _refused(pair: Pair, number: int) -> str:
    return replace(pair, positive=REFUSALS[number]).answer


def _wrapped(ways: Sequence[str]) -> Callable[[Pair, int], str]:
    turns = cycle(ways)
    return lambda pair, number: replace(pair, query=next(turns).format(pair.query)).answer


def _length(pair: Pair, number: int) -> str:
    if number % 2:
        return replace(pair, query=" ".join(pair.query.split()[:2])).answer
    return replace(pair, positive=f"{pair.positive} {pair.passage} {pair.passage[::-1]}"[:4_000]).answer


def _copied(pair: Pair, number: int) -> str:
    words = re.findall(r"\S+", pair.passage)
    return replace(pair, positive=" ".join(words[number : number + 34])).answer


def _leaked(pair: Pair, number: int) -> str:
    return replace(pair, query=" ".join([pair.query, *pair.positive.split()[:24]])[:290]).answer


KINDS: dict[str, tuple[Callable[[Pair, int], str], tuple[str, ...]]] = {
    "schema": (_schema, ("unparsable",)),
    "language": (_foreign, ("language",)),
    "refusal": (_refused, ("refusal",)),
    "boilerplate": (_wrapped(BOILERPLATE), ("boilerplate",)),
    "length": (_length, ("too_short", "too_long")),
    "copied": (_copied, ("copied",)),
    "answer_in_query": (_leaked, ("answer_in_query",)),
    "context_bound": (_wrapped(BOUND), ("context_bound",)),
}
AT_ODDS: tuple[tuple[str, Callable[[Pair], Pair], str, Callable[[Pair], bool]], ...] = (
    (
        "nli",
        lambda pair: replace(pair, positive=f"{pair.positive.rstrip('.')} within 37 days."),
        "not_entailed",
        lambda pair: True,
    ),
    (
        "factcheck",
        lambda pair: replace(pair, query=f"{pair.query.rstrip('.')} in 83 percent of all cases."),
        "unrefuted",
        lambda pair: not DENIAL.search(pair.positive) and not figures_of(pair.positive),
    ),
)
