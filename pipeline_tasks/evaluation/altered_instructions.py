"""Instructions for judged queries whose effect on the judgements is known, because a rule makes both.

A rule speaks of the words of passages: whether a passage is relevant under its instruction can be read off its text.

=========== ========================================== ==============================================
rule        changed instruction                        what it changes
=========== ========================================== ==============================================
``without`` passages that mention X do not count       relevant ones that mention X are excluded
``only``    only passages that mention X count         relevant ones that do not mention X are excluded
``also``    those that mention X or Y count; before,   relevant ones that mention Y and not X are included
            those that mention X
=========== ========================================== ==============================================

Under either instruction a passage is relevant, and so are at least two without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

Rule = Literal["without", "only", "also"]
RULES: tuple[Rule, ...] = get_args(Rule)

_WORD = re.compile(r"[^\W\d_]{4,}")
# The wordings of instructions, with a place for each word.
ALL = "Passages that answer the query are relevant."
WITHOUT = ALL + ' Passages that mention "{}" are not relevant.'
ONLY = 'Of the passages that answer the query only those that mention "{}" are relevant.'
EITHER = 'Of the passages that answer the query only those that mention "{}" or "{}" are relevant.'


class Altered(NamedTuple):
    """An instruction, another one, and what is relevant under each.

    Attributes:
        rule: that made them.
        instruction: the original one.
        changed: the other one.
        grades: passage id -> grade under the original instruction.
        changed_grades: the same under the other one.
    """

    rule: Rule
    instruction: str
    changed: str
    grades: dict[str, int]
    changed_grades: dict[str, int]


def words_of(text: str) -> set[str]:
    """Words that a rule may speak of: of four letters or more, in lower case."""
    return set(_WORD.findall(text.lower()))


def alter(
    query: str,
    grades: Mapping[str, int],
    words: Mapping[str, set[str]],
    rarity: Callable[[str], float],
    rules: tuple[Rule, ...] = RULES,
) -> Iterator[Altered]:
    """What each rule makes of a judged query; nothing where its relevant passages share all or none of their words.

    X is the word that tells most about which relevant passages are meant: the rarer in the corpus and the nearer to
    half of the relevant passages, the better. Words of the query are not spoken of.

    Args:
        query: its text.
        grades: passage id -> grade, of every passage that was judged.
        words: the words of these passages.
        rarity: of a word in the corpus, the larger the rarer.
        rules: those that are wanted.
    """
    relevant = [name for name in sorted(grades) if grades[name] > 0]
    asked = words_of(query)
    said = sorted(set().union(*(words[name] for name in relevant)) - asked)
    having = {word: [name for name in relevant if word in words[name]] for word in said}
    telling = {word: _split(len(names), len(relevant)) * rarity(word) for word, names in having.items()}
    best = sorted((word for word in said if telling[word] > 0), key=lambda word: (-telling[word], word))
    if not best:
        return
    first = best[0]
    others = (word for word in best[1:] if not set(having[word]) & set(having[first]))
    second = next(others, "")

    def only(*mentioned: str) -> dict[str, int]:
        return {name: grade if words[name] & {*mentioned} else min(grade, 0) for name, grade in grades.items()}

    for rule in rules:
        if rule == "without":
            left = {name: min(grade, 0) if first in words[name] else grade for name, grade in grades.items()}
            yield Altered(rule, ALL, WITHOUT.format(first), dict(grades), left)
        elif rule == "only":
            yield Altered(rule, ALL, ONLY.format(first), dict(grades), only(first))
        elif second:
            changed = EITHER.format(first, second)
            yield Altered(rule, ONLY.format(first), changed, only(first), only(first, second))


def _split(n_having: int, n_relevant: int) -> float:
    """Entropy of whether a relevant passage has the word; 0 where all have it."""
    share = n_having / n_relevant
    return 0.0 if share == 1 else -(share * math.log(share) + (1 - share) * math.log(1 - share))
