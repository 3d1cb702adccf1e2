"""The little Markdown that sample documents are written in, as a list of blocks."""

import re
from dataclasses import dataclass
from typing import Literal

_ITEM = re.compile(r"(-|\d+\.)\s+(.*)", re.DOTALL)
_STARTS_BLOCK = re.compile(r"#+\s|- |\d+\.\s|\|")
_RULE = re.compile(r"\|[\s:|-]+\|?")
_BULLET = "\u00b7"


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, a list item with its marker, or a table row with its cells."""

    kind: Literal["heading", "paragraph", "item", "header_row", "row"]
    text: str
    marker: str = ""
    cells: tuple[str, ...] = ()


def parse_blocks(body: str) -> list[Block]:
    """The blocks of a text in their order; every word of it is in exactly one of them.

    A line that starts no block of its own continues the one above; the emphasis marks ``**`` are dropped.
    """
    chunks: list[list[str]] = [[]]
    for line in body.replace("**", "").splitlines():
        stripped = line.strip()
        if not stripped:
            chunks.append([])
        elif chunks[-1] and not _STARTS_BLOCK.match(stripped) and not chunks[-1][0].startswith("#"):
            chunks[-1].append(stripped)
        else:
            chunks.append([stripped])
    blocks: list[Block] = []
    for chunk in filter(None, chunks):
        text = " ".join(chunk)
        if _RULE.fullmatch(text):
            continue
        blocks.append(_block(text, in_table=bool(blocks) and blocks[-1].kind in ("header_row", "row")))
    return blocks


def _block(text: str, in_table: bool) -> Block:
    if text.startswith("|"):
        cells = tuple(cell.strip() for cell in text.strip("|").split("|"))
        return Block("row" if in_table else "header_row", " ".join(cells), cells=cells)
    if text.startswith("#"):
        return Block("heading", text.lstrip("#").strip())
    if item := _ITEM.fullmatch(text):
        return Block("item", item[2], marker=_BULLET if item[1] == "-" else item[1])
    return Block("paragraph", text)
