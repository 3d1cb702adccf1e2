"""Turns of phrase by which a text gives itself away, each a pattern over one text."""

from __future__ import annotations

import re

Pattern = re.Pattern[str]


def _one_of(*ways: str) -> Pattern:
    return re.compile("|".join(ways), re.IGNORECASE)


_TEXT = r"(?:passage|excerpt|article|paragraph|snippet|author|writer|speaker)s?"
_SOURCE = r"(?:document|text|context|section|page|report|guide|guidance|material|slide|information|source)s?"
_ANY = f"(?:{_TEXT}|{_SOURCE})"
_SAYS = r"(?:says?|states?|mentions?|describes?|discuss(?:es)?|explains?|recommends?|suggests?|lists?|advises?|covers?)"
_SAID = (
    r"(?:mentioned|described|listed|stated|discussed|shown|outlined|noted|explained|provided|given|presented|covered)"
)
_MODEL = r"(?:ai|llm|chatbot|(?:large )?language model|(?:ai|virtual|digital) (?:model|assistant|system))s?"
_CANNOT = r"(?:can['’]?t|cannot|can not|could not|couldn['’]?t|won['’]?t|will not|am unable to|['’]m unable to)"
_LABEL = (
    r"(?:query|question|request|positive|passage|answer|response|document|tweet|post|claim|evidence|premise|hypothesis|"
    r"sentence|output|result|need|user|assistant|model|system)"
)

MARKUP = re.compile(r"<\|?/?[A-Za-z!][^<>]{0,80}>|```|\{\{|https?://|www\.")
"""Tags, code and addresses."""

REFUSAL = _one_of(
    r"\b(?:i|we) (?:am|are|['’]m|['’]re) (?:sorry|afraid|unable|not able|not allowed|not permitted|not comfortable)\b",
    r"\b(?:i['’]m|we['’]re) (?:sorry|afraid|unable|not able|not allowed|not permitted|not comfortable)\b",
    r"^\W*(?:sorry|apologies|unfortunately|regrettably)\b.{0,20}\b(?:i|we|this request|this prompt)\b",
    r"\b(?:i|we) (?:(?:must|have to|will|would) )?(?:respectfully )?(?:apologi[sz]e|decline|refuse)\b",
    rf"\b(?:i|we) {_CANNOT} (?:\w+ ){{0,2}}(?:assist|help|provide|comply|answer|write|create|generate|fulfil|continue|"
    r"produce|do (?:that|this|so)|discuss|engage|complete|respond|determine)",
    r"\bi (?:do not|don['’]?t) (?:have|know|see) (?:\w+ )?(?:enough|sufficient|access|information|context|opinions)",
    r"\b(?:violates?|against) (?:the|our|my|any) .{0,20}\b(?:polic(?:y|ies)|guidelines|terms)\b",
    r"\b(?:my|our) (?:guidelines|programming|training data|instructions|capabilities)\b",
    r"\bmy apologies\b|\bi regret that\b|\b(?:i['’]d|i would) rather not\b|\b(?:appropriate|possible) for me\b",
    r"^\W*unable to (?:generate|produce|answer|comply)\b",
    rf"\bas an? {_MODEL}\b",
    r"\bthe (?:\w+ )?(?:passage|text|document|context|excerpt) "
    r"(?:lacks|(?:does not|doesn['’]?t) (?:contain|provide|mention|include|say))",
    r"\b(?:no|not enough|insufficient) (?:information|detail|context)s? (?:is|was|are|were)? ?"
    r"(?:given|provided|available|to (?:answer|state|write|derive|determine|form|formulate|generate))\b",
    r"\bthis (?:content|request|task|topic) is not something (?:that )?(?:i|we)\b",
    r"\bthe (?:request|task|prompt) (?:cannot|can['’]?t|can not|could not) be (?:fulfilled|completed|answered)\b",
    r"^\W*(?:sorry|apologies|unfortunately|regrettably)\W+th(?:e|is) (?:passage|text|document|excerpt) (?:is|does)\b",
    r"^\W*no (?:\w+ )?(?:need|query|question|request) (?:can|could) be (?:derived|written|generated|formed|inferred)\b",
)
"""A model that says that it does not answer."""

BOILERPLATE = _one_of(
    r"^\W*(?:sure|certainly|of course|absolutely|okay|ok|great|gladly|happy to help)\b(?: thing)?\W*[,!.:]",
    r"^\W*(?:here|below|the following)\b.{0,60}:",
    rf"^\W*(?:(?:generated|user|search|new|final|possible|positive|information) )?{_LABEL}\W{{0,3}}(?:\d+\W{{0,3}})?"
    r"(?:[:–—]|-\s)",
    rf"\bthis {_LABEL} (?:meets|expresses|answers|satisfies|fulfils|follows|captures|reflects|is (?:written|based))",
    r"^\W*[qa]\d?\W{0,2}:|^\W*\d{1,2}[.)]\s|\bbased on your (?:instructions|request)\b|\bas requested\b",
    r"\bhope (?:this|that) helps?\b|\blet me know if\b|\bfeel free to\b|\blorem ipsum\b|\bword count\b",
    r"\[(?:insert|your|name|date|location|city|agency|link|source)\b[^\]]*\]",
)
"""A model that speaks about its answer, repeats a label, or leaves a blank."""

BOUND = _one_of(
    rf"\b(?:this|these) {_ANY}\b",
    rf"\b(?:the|this|that) (?:above|given|provided|preceding|attached|following {_ANY})\b(?!-)",
    rf"\bthe {_TEXT}\b(?! of\b)",
    r"\b(?:according to|based on|per|in|from) (?:the|this) (?:\w+ )?(?:text|context)\b",
    rf"\b(?:according to|based on|per) (?:the|this|these|that) {_ANY}\b(?! (?:of|on|for|by|from)\b)",
    rf"\bthe {_ANY} (?:above|below|{_SAYS})\b|\b{_SAID} (?:above|below|earlier|here\b|in (?:the|this) {_ANY})",
    r"\b(?:main|central|key) (?:idea|point|topic|message|theme)s? (?:of|in) (?:the|this)\b",
    r"\bsummari[sz]e (?:the|this)\b|\b(?:first|second|third|last|next) paragraph\b",
    rf"\bas {_SAID} (?:previously|before)\b|\b(?:list|table|steps) (?:above|below)\b",
    r"\b(?:information|text|passage|details) (?:provided|given)\b(?! (?:by|to|in)\b)",
    r"\b(?:table|figure|exhibit) \d+\b(?! (?:of|in)\b)",
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
    r"<\|?/?(?:im_|system|user|assistant|end)\w*\|?>|\[/?INST\]",
    r"^\s*(?:system|assistant|user)\s*:\s*(?:you|from now|i )",
    r"\b(?:output|answer|reply|respond)\b.{0,15}\bwith (?:only |exactly |nothing but |just )?(?:the|one) words?\b",
    r"^\W*(?:please |now |then )?(?:write|claim|state|print|say) that\b|\b(?:passage|text) above verbatim\b",
    r'"(?:wanted|query|positive|passage|need|role|content)"\s*:',
    r"\b(?:your|the) (?:query|positive|answer|output|response|json) (?:must|should|shall|is to)\b",
)
"""A sentence that is addressed to a model."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def without_orders(passage: str) -> str:
    """``passage`` without the sentences that are addressed to a model."""
    return " ".join(sentence for sentence in _SENTENCE.split(passage) if not ORDER.search(sentence))
