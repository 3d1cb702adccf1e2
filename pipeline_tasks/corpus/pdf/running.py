"""Running headers, footers and page numbers: found over the whole document, taken off every page."""

from __future__ import annotations

import re
from collections import defaultdict

from pipeline_tasks.corpus.pdf.model import Aside, PageText, Segment

_EDGE_SHARE = 0.12
_SAME_HEIGHT_PT = 6.0
_WITHIN_PAGES = 2
_HEADING_RATIO = 1.25
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(
    r"[\W_]*(?:(?:page|p\.|pg\.)[\W_]*)?(?:[a-z]{1,3}-)?(?:\d{1,5}|[ivxlc]{1,7})"
    r"(?:[\W_]*(?:of|/)[\W_]*\d{1,5})?[\W_]*",
    re.IGNORECASE,
)


def take_running_lines(pages: list[PageText]) -> tuple[list[PageText], list[Aside]]:
    """The pages without what repeats at their edges, and each repeated line once, where it stood first.

    A line at the top or foot of a page goes where its text, digits aside, stands at the same height on at least half
    of the pages, or on two that follow one another or have one between them (headers of a chapter, or of left and
    right pages); and where it is a page number. Text in the size of a heading stays.
    """
    places: dict[str, list[tuple[int, float]]] = defaultdict(list)
    edges = [_edge_segments(page) for page in pages]
    for number, found in enumerate(edges):
        for segment in found:
            places[_shape(segment.text)].append((number, segment.y0))
    running = {shape for shape, spots in places.items() if _repeats(spots, len(pages))}
    kept, asides, seen = [], [], set()
    for number, (page, found) in enumerate(zip(pages, edges, strict=True), start=1):
        gone = {id(s) for s in found if _shape(s.text) in running or _is_number(s.text)}
        for segment in found:
            shape = _shape(segment.text)
            name = shape if shape in running else segment.text
            if id(segment) in gone and name not in seen:
                seen.add(name)
                asides.append(Aside("running", number, segment.text))
        segments = [s for s in page.segments if id(s) not in gone] if gone else page.segments
        kept.append(PageText(page.width, page.height, segments))
    return kept, asides


def _edge_segments(page: PageText) -> list[Segment]:
    """What stands in the top or bottom margin, or last on the page below a blank."""
    top, foot = page.height * _EDGE_SHARE, page.height * (1 - _EDGE_SHARE)
    if page.segments:
        last = max(s.y1 for s in page.segments)
        above = max((s.y1 for s in page.segments if s.y1 < last - _SAME_HEIGHT_PT), default=0.0)
        if last > page.height / 2:
            foot = min(foot, max(above + _SAME_HEIGHT_PT, page.height / 2))
    found = [s for s in page.segments if s.y1 < top or s.y0 > foot]
    if found:
        sizes = sorted(s.size for s in page.segments)
        largest = _HEADING_RATIO * sizes[len(sizes) // 2]
        found = [s for s in found if s.size <= largest or _is_number(s.text)]
    return found


def _repeats(spots: list[tuple[int, float]], n_pages: int) -> bool:
    if len(spots) < 2:
        return False
    by_height: dict[int, list[int]] = defaultdict(list)
    for number, height in spots:
        level = int(height // _SAME_HEIGHT_PT)
        by_height[level].append(number)
        by_height[level + 1].append(number)
    for level_numbers in by_height.values():
        numbers = sorted(set(level_numbers))
        if len(numbers) >= max(2, n_pages * 0.5):
            return True
        near = zip(numbers, numbers[1:], strict=False) if n_pages > 2 else ()
        if any(b - a <= _WITHIN_PAGES for a, b in near):
            return True
    return False


def _shape(text: str) -> str:
    return _DIGITS.sub("#", " ".join(text.lower().split()))


def _is_number(text: str) -> bool:
    return _WORD.search(text) is None or (len(text) < 24 and _NUMBER.fullmatch(text) is not None)
