"""Instructions that want a word or do not, in thousands of wordings by a small grammar, as different as an LLM's are.

A model that learns from a few sentences hears these and no others. None here says "passages", "mention" or "relevant":
those are the words of :mod:`pipeline_tasks.evaluation.altered_instructions`, by which models are scored.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_tasks.core.ids import unit_hash

THINGS = ("texts", "documents", "results", "answers", "articles", "paragraphs", "sources", "excerpts", "hits", "pages")
SAYING = (
    "name", "contain", "speak of", "refer to", "talk about", "include", "discuss", "deal with", "bring up", "touch on",
    "are about", "say something on",
)  # fmt: skip
QUOTED = ('"{}"', "{}", "'{}'", 'the word "{}"', "the term {}", "the subject of {}")
WANTED = (
    "Only {things} that {say} {what}.",
    "Show me {things} which {say} {what}.",
    "Keep just those {things} that {say} {what}.",
    "I am looking for {things} that {say} {what}.",
    "What I need must {say} {what}.",
    "It is essential that they {say} {what}.",
    "The {things} have to {say} {what}.",
    "Restrict the search to {things} that {say} {what}.",
    "Ignore {things} that do not {say} {what}.",
    "{things} that never {say} {what} are of no use to me.",
    "Without {what} the {things} do not help.",
    "Nothing counts unless {what} is in it.",
    "Do not give me {things} in which {what} is missing.",
    "{what} must be there.",
)
UNWANTED = (
    "No {things} that {say} {what}.",
    "Show me {things} which do not {say} {what}.",
    "Keep just those {things} that never {say} {what}.",
    "I am not looking for {things} that {say} {what}.",
    "What I need must not {say} {what}.",
    "It is essential that they do not {say} {what}.",
    "The {things} must not {say} {what}.",
    "Restrict the search to {things} that leave out {what}.",
    "Ignore {things} that {say} {what}.",
    "{things} that {say} {what} are of no use to me.",
    "With {what} in them the {things} do not help.",
    "Nothing counts if {what} is in it.",
    "Give me {things} in which {what} is missing.",
    "Anything but {what}.",
)
"""Each is one of the wanting ones with the opposite meaning, so that no single word tells which of both it is."""
BEFORE = ("", "", "", "Whatever answers the question is fine. ", "I have read a lot on this. ", "Please help me here: ")


def worded(words: Sequence[str], wanted: bool, seed: str) -> str:
    """An instruction that wants one of ``words``, or none of them."""

    def one_of(choices: Sequence[str], name: str) -> str:
        return choices[int(unit_hash(name, seed, *words) * len(choices))]

    quoted = one_of(QUOTED, "quoted")
    what = " or ".join(quoted.format(word) for word in words)
    frame = one_of(WANTED if wanted else UNWANTED, "frame")
    said = frame.format(things=one_of(THINGS, "things"), say=one_of(SAYING, "saying"), what=what)
    return one_of(BEFORE, "before") + said[0].upper() + said[1:]
