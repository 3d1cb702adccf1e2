"""The page: whatever texts hold, they stay text; every chart has a name and its numbers; versions are links."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.report.content import Report, Version
from pipeline_tasks.report.page import page
from tests.report.made import IMAGE, N_QUERIES, SCRIPT

HARMLESS = (
    "a b body caption code dd defs desc details div dl dt figure footer g h1 h2 h3 head header html li link main meta "
)
HARMLESS += (
    "nav ol p path section span strong style summary svg table tbody td text th thead title tr ul use clippath rect"
)


class Seen(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def test_texts_of_hostile_pages_and_queries_stay_text(html):
    seen = Seen(html)
    assert seen.tags <= set(HARMLESS.split())
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert SCRIPT in unescape(html) and IMAGE in unescape(html)
    assert SCRIPT not in html and IMAGE not in html


def test_nothing_on_the_page_is_fetched_from_elsewhere(html):
    fetched = [
        (name, value) for name, value in Seen(html).attributes if name in ("src", "href", "xlink:href", "srcset")
    ]
    allowed = ("#", "data:,", "http://127.0.0.1:8080/lineage/")
    assert [pair for pair in fetched if not pair[1].startswith(allowed)] == []
    assert "@import" not in html and "url(h" not in html
    assert "default-src 'none'" in html


def test_every_chart_has_a_name_a_description_and_its_numbers(html):
    ids = set(Seen(html).ids)
    sections = [part for part in html.split("<section ")[1:] if "<svg" in part]
    assert len(sections) > 10
    for section in sections:
        assert section.count("<svg") == section.count('role="img"') == 2
        for named in re.findall(r'aria-labelledby="([^"]*)"', section):
            assert set(named.split()) <= ids
        assert "<table>" in section and "<desc" in section


def test_no_id_is_there_twice(html):
    ids = Seen(html).ids
    assert len(ids) == len(set(ids))


def test_versions_and_passages_lead_to_the_lineage_page(built, html):
    model = str(built[2]).replace("/", "%2F").replace("@", "%40")
    assert f'href="http://127.0.0.1:8080/lineage/#/graph/{model}"' in html
    assert 'href="http://127.0.0.1:8080/lineage/#/trace/p-d-a"' in html


def test_the_lineage_page_is_at_the_address_that_was_given_if_it_is_one():
    empty = Report("nothing", [], [], [("Model", Version("model/33m/finetune@1"), "")], [])
    for address in ("https://example.org/lineage/", "https://example.org/lineage"):
        assert 'href="https://example.org/lineage/#/graph/model%2F33m' in page(empty, address)
    with pytest.raises(InputError, match="begins with http"):
        page(empty, "javascript:alert(1)")


def test_the_worst_query_comes_first_with_what_was_retrieved(html):
    worst = unescape(html).split("<summary>Worst 10</summary>")[1].split("<summary>Best 10</summary>")[0]
    assert worst.count('<details class="query">') == 10 and N_QUERIES > 20
    first = worst.split("</details>")[0]
    assert SCRIPT in first and "not judged" in first and IMAGE in first
    assert "This passage is in no latest dataset." in worst and "relevant, grade 2" in worst
    assert "not relevant" in worst and "grade -2" not in worst
