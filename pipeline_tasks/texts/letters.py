"""What a word is made of, wherever texts are compared.

A *word* is a run of letters, marks, digits and underscores of any script, its case folded letter by letter (É is é, Σ
and ς are σ; ß stays ß, for its folding is two letters). Han ideographs and kana, which no blanks part, are each a word;
half-width kana and archaic ones, beyond U+FFFF, are letters like any other.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ALONE = np.uint32(1 << 31)
_UNSPACED = ((0x3041, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


def plain(texts: pa.Array) -> pa.StringArray:
    """``texts`` as they read, however they were typed: in one Unicode form (NFKC), without what is not seen (Cf).

    So a ligature is its letters, a full-width letter a plain one, and no soft hyphen parts a word.
    """
    return pc.replace_substring_regex(pc.utf8_normalize(texts.cast(pa.string()), form="NFKC"), r"\p{Cf}", "")


@cache
def alphabet() -> np.ndarray:
    """Code point -> its folded letter, 0 where no word goes on; the bit ``ALONE`` marks a letter that is a word alone.

    Shapes: [code points] uint32.
    """
    letters = np.zeros(sys.maxunicode + 1, np.uint32)
    for point in range(0x40000):
        char = chr(point)
        if char == "_" or unicodedata.category(char)[0] in "LMN":
            folded = next((f for f in (char.casefold(), char.lower()) if len(f) == 1), char)
            letters[point] = ord(folded)
    for first, last in _UNSPACED:
        here = letters[first : last + 1]
        here[here > 0] |= ALONE
    return letters
