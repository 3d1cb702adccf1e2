"""Where sentences end: abbreviations, initials, numbered items and quotations do not end one."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.corpus.chunking.words import CLOSERS, STOPS_WITHOUT_SPACE, Words, marked

_STOPS_OF_SCRIPTS = STOPS_WITHOUT_SPACE + "؟۔।॥።፧։။།។៕᠃꓿"
_OPENERS = "\"'“‘«([{‹¿¡「『（【《〈*_#"
BULLETS = "-*–—•‣◦▪▫■□●○◆◇·∙➢➤✓✔⁃\uf0b7\uf0a7\uf076\uf0d8"
_LATIN, _SCRIPT, _CLOSER = marked(".!?…‽"), marked(_STOPS_OF_SCRIPTS), marked(CLOSERS)

_NEVER_LAST = frozenset(
    "mr mrs ms dr prof rev hon sr gen col maj capt cmdr lt sgt adm gov sen rep pres supt st mt ft messrs mme mlle "
    "vs viz cf approx ca incl esp resp al e.g i.e eg ie n.b".split()
)
_BEFORE_A_NUMBER = frozenset(
    "hr hrs min mins no nos fig figs sec secs eq eqs ch chap vol vols p pp para paras art app tab ref refs ed n nr "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_SOMETIMES_LAST = frozenset(
    "etc inc ltd co corp jr sr dept univ assn bros a.m p.m am pm est ave blvd rd hwy ph.d".split()
)
_LONGEST = max(map(len, _NEVER_LAST | _BEFORE_A_NUMBER | _SOMETIMES_LAST)) + 1
_LABELS = frozenset("activity annex appendix chapter exhibit figure lesson part phase section step table unit".split())
_OPENS_A_SENTENCE = frozenset(
    "the a an this that these those it its he she they we you i his her their our your my in on at by for from to of "
    "with as if when where while after before since until because although but and or so yet no not all any each "
    "many most some such there here what who which how why do does did is are was were be can could may might must "
    "shall should will would then thus however also other another one two both during under over about".split()
)


def sentence_ends(words: Words, line_starts: np.ndarray) -> np.ndarray:
    """True where a word is the last of its sentence.

    Args:
        words: the text.
        line_starts: [w], True where a word is the first of its line.

    Shapes:
        returns [w], bool.
    """
    last = words.ends - 1
    for _ in range(3):
        last = np.where(_CLOSER[words.codes[last]] & (last > words.starts), last - 1, last)
    final = words.codes[last]
    ends = _SCRIPT[final].copy()
    for i in np.flatnonzero(_LATIN[final]).tolist():
        following = words.words[i + 1] if i + 1 < len(ends) else ""
        first = i - 1 if i and words.words[i - 1].lower() in _LABELS else i
        fresh = bool(line_starts[first]) or bool(ends[first - 1])
        ends[i] = _ends(words.words[i], following, fresh)
    return ends


def is_enumerator(word: str) -> bool:
    """``1.``, ``(2)``, ``a)`` or ``iv.``, as before an item of a list."""
    core = word.strip("().")
    known = (core.isdigit() and len(core) <= 3) or (len(core) == 1 and core.isalpha()) or core in _ROMAN
    return known and word[-1] in ".)" and len(word) - len(core) <= 3


_ROMAN = frozenset("ii iii iv vi vii viii ix xi xii".split())


def _ends(word: str, following: str, fresh: bool) -> bool:
    """Does ``word``, which has a full stop, end its sentence?

    Args:
        word: the word.
        following: the next one, or nothing.
        fresh: the word is the first of a line or a sentence, but for a label as in ``Step 1.``.
    """
    if word in ".!?":
        return True
    opening = following.lstrip(_OPENERS)
    if opening[:1].islower() and following[:1] not in BULLETS:
        return False
    if len(word) > _LONGEST and word[:-1].isalpha():
        return True
    bare = word.strip(CLOSERS + _OPENERS)
    if not bare.endswith(".") or bare.endswith(".."):
        return True
    if fresh and is_enumerator(bare):
        return False
    core = bare[:-1]
    name = core.lower()
    if name in _NEVER_LAST:
        return False
    if name in _BEFORE_A_NUMBER:
        return not opening[:1].isdigit()
    if name in _SOMETIMES_LAST or _is_initials(core):
        return opening.rstrip(",").lower() in _OPENS_A_SENTENCE or not opening
    return True


def _is_initials(core: str) -> bool:
    """``J``, ``U.S`` or ``J.R.R``."""
    return core[1:2] in ("", ".") and bool(core) and all(len(part) == 1 and part.isalpha() for part in core.split("."))
