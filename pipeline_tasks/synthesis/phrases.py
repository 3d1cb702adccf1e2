"""Turns of phrase by which a text gives itself away, each a pattern over one text."""

from __future__ import annotations

import re

Pattern = re.Pattern[str]


def _one_of(*ways: str) -> Pattern:
    return re.compile("|".join(ways), re.IGNORECASE)


_SOURCE = r"(?:document|passage|text|excerpt|article|section|paragraph|page|report|author|guide|material|slide)s?"
_GIVEN = r"(?:passage|text|excerpt|article|paragraph|author)s?"
_MODEL = r"(?:ai|llm|chatbot|language model|assistant)s?"

MARKUP = re.compile(r"<\|?/?[A-Za-z!][^<>]{0,80}>|```|\{\{|https?://|www\.")
"""Tags, code and addresses."""

REFUSAL = _one_of(
    r"\b(?:i'?m|i am|we'?re|we are) (?:sorry|afraid|unable|not able)\b",
    r"\b(?:i|we) (?:can['’]?t|cannot|could not|won['’]?t|will not) (?:\w+ )?"
    r"(?:assist|help|provide|comply|answer|write|create|generate|fulfil|continue|produce)",
    r"\b(?:my|our) (?:guidelines|policy|policies|programming|training data)\b",
    rf"\bas an? {_MODEL}\b",
    r"\b(?:no|not enough|insufficient) (?:information|detail|context)s? (?:is|was|are|were)? ?"
    r"(?:given|provided|available)\b",
)
"""A model that says that it does not answer."""

BOILERPLATE = _one_of(
    r"^(?:sure|certainly|of course|absolutely|okay|great)\b[,!.:]",
    r"^(?:here(?:['’]s| is| are)|below is|the following is)\b.{0,60}:",
    r"^\W*(?:query|user query|question|positive(?: passage)?|passage|answer|document|tweet|claim|evidence|premise|"
    r"hypothesis|sentence|output|need|information need)\s*(?:\d\s*)?:",
    r"\bi hope this helps\b|\blet me know if\b|\bfeel free to ask\b|\blorem ipsum\b",
    r"\[(?:insert|your|name|date|location|city|agency)\b[^\]]*\]",
)
"""A model that speaks about its answer, repeats a label, or leaves a blank."""

BOUND = _one_of(
    rf"\b(?:this|these) {_SOURCE}\b",
    rf"\b(?:the|this|that) (?:above|following|given|provided|preceding|attached)(?: \w+)? {_SOURCE}\b",
    rf"\b(?:according to|based on|in|from|by|of) the {_GIVEN}\b(?! of\b)",
    rf"\bthe {_SOURCE} (?:above|below|says?|states?|mentions?|describes?|discuss(?:es)?|explains?)\b",
    rf"\b(?:mentioned|described|listed|stated|discussed|shown) (?:above|below|earlier|in the {_SOURCE})\b",
)
"""A query that points at something which its reader does not see."""

DENIAL = _one_of(
    r"\b(?:refuted|false|wrong|incorrect|inaccurate|untrue|myth|contrary|instead|rather|only|just|however|but|whereas)\b",
    r"\b(?:although|though|not|no|never|none|neither|nor|cannot|without|fails?|unlike|less|fewer|higher|lower)\b",
    r"n['’]t\b",
)
"""Evidence that says no to something."""

ORDER = _one_of(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous|prior|earlier)",
    r"\b(?:system|developer|hidden) (?:prompt|message|instruction)|\bnew (?:instructions|task|rules)\s*:",
    rf"\byou are (?:now|no longer)\b|\b{_MODEL}\b.{{0,30}}\b(?:must|should|shall|reading|reads)\b",
    rf"\b(?:dear|attention|note to|message (?:to|for)|instructions? (?:to|for))\b.{{0,20}}\b{_MODEL}\b",
    r"<\|?/?(?:im_|system|user|assistant|end)\w*\|?>|\[/?INST\]|^\s*(?:system|assistant|user)\s*:",
    r"\b(?:output|answer|reply|respond|write|print|say)\b.{0,20}\b(?:only|exactly|nothing but|the words?|verbatim)\b",
    r"^\W*(?:please |now |then )?(?:write|claim|print|output|praise|repeat|pretend|translate)\b",
    r'"(?:wanted|query|positive|passage|need|role|content)"\s*:',
    r"\b(?:your|the) (?:query|positive|answer|output|response|json) (?:must|should|shall|is to)\b",
)
"""A sentence that is addressed to a model."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def without_orders(passage: str) -> str:
    """``passage`` without the sentences that are addressed to a model."""
    return " ".join(sentence for sentence in _SENTENCE.split(passage) if not ORDER.search(sentence))
