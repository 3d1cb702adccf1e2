"""The ask page in a real browser: ask, see why, judge, trace; nothing of a document runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.ask.server import serving
from pipeline_tasks.domains.questions import read_questions
from tests.ask.conftest import HOSTILE
from tests.chromium import chromium

SHOWN = """async (scores) => {
  const { hitCard } = await import("./static/hit.js");
  const none = { n: 0, rows: [] };
  const uses = { written: none, agreed: none, positive: none, negative: none };
  const shown = { passages: { p: { text: "", uses, split: "train" } }, ranks: {}, saves: false };
  const card = ([unit, score]) => hitCard({ passage_id: "p", rank: 1, score, quote: "", seen: [] }, { unit }, shown);
  return scores.map((one) => card(one).querySelector(".score").textContent);
}"""
"""What a page shows as the scores of hits, by their unit."""


@pytest.fixture
def page(corpus, reader, tmp_path: Path) -> Iterator:
    troubles: list[str] = []
    with (
        serving(corpus, reader, ["model/22m/finetune", "bm25"], tmp_path / "questions.jsonl") as (url, _),
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith(url) else troubles.append(asked.url))
        page.goto(url)
        yield page
        page.context.close()
    assert troubles == []


def test_numbers_are_rounded_to_what_tells_them_apart(page):
    times = [9.5, 59.97, 119.7, 3599.7, 5400]
    told = page.evaluate("times => import('./static/dom.js').then(m => times.map(m.seconds))", times)
    assert told == ["9.50 s", "1 min 0 s", "2 min 0 s", "1.0 h", "1.5 h"]
    scores = page.evaluate(SHOWN, [["RRF", 0.03279], ["RRF", 0.03226], ["cosine", 0.71849], ["BM25", 12.3456]])
    assert scores == ["0.0328", "0.0323", "0.718", "12.35"]


def test_a_question_is_asked_judged_and_traced(page, tmp_path: Path):
    page.fill("input[name=question]", "how long must water be boiled in the camp?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".column:nth-child(2) .hit")
    words = page.locator(".column[aria-label=bm25]")
    assert page.locator(".column h2").all_inner_texts() == ["model/22m/finetune 01234567", "bm25"]
    trap = words.locator(".hit", has_text="needs ten minutes of boiling")
    assert HOSTILE in trap.locator("h3").inner_text() and trap.locator("h3 a").count() == 0
    assert HOSTILE in trap.locator("blockquote").inner_text()
    assert page.locator("main img, main script").count() == 0 and page.title() == "Ask the corpus"
    other = words.locator(".hit", has_text="A storm brings")
    assert other.locator("h3 a").get_attribute("href") == "https://example.org/storm.pdf#page=2"
    assert "pages 2–3" in other.inner_text() and "negative of 1 in mtt/0.75" in other.inner_text()
    trap.locator("button:text-is('Answers')").click()
    page.wait_for_selector(".said.done")
    assert page.locator("button[aria-pressed=true]").all_inner_texts() == ["Answers"] * 2
    (question,) = read_questions(tmp_path / "questions.jsonl")
    assert [(j.grade, j.evidence.endswith("ten minutes of boiling.")) for j in question.judgements] == [(2, True)]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    other.locator("summary").click()
    assert "is the road safe?" in other.locator("details").inner_text()
    other.locator("a:text-is('Lineage')").click()
    page.wait_for_selector(".steps:has-text('Where it is a negative')")
    page.go_back()
    page.wait_for_selector("button[aria-pressed=true]")
