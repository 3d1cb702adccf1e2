"""``foundry ask`` and ``foundry judge`` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.domains.questions import read_questions
from tests.stores import put

BOIL = "Boil the water for ten minutes [bold]before[/bold] you drink it."
ROAD = "A road below the dam is closed when the gates open."


@pytest.fixture
def foundry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the command over a store of two passages; gives what it printed."""
    place = {
        "title": "Wells \x1b]0;stolen\x07",
        "url": "https://example.org/a.pdf",
        "page": 1,
        "start_char": 0,
        "split": "train",
    }
    texts = {"p-boil": BOIL, "p-road": ROAD}
    rows = [place | {"passage_id": i, "doc_id": "d", "text": text, "end_char": len(text)} for i, text in texts.items()]
    put(LocalStore(tmp_path / "store"), PASSAGES, rows)
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    settings.cache_clear()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        if done.exception:
            raise done.exception
        return done.output

    return run


def test_an_answer_is_told_with_its_page_and_address_and_nothing_in_it_is_markup(foundry):
    told = foundry("ask", "how long must water boil?", "--model", "bm25")
    assert BOIL in told and "https://example.org/a.pdf#page=1" in told and "in no pair and no build" in told
    assert "\x1b]0;" not in told and ROAD not in told


def test_an_answer_as_json_is_whole(foundry):
    found = json.loads(foundry("ask", "how long must water boil?", "--model", "bm25", "--format", "json"))
    assert found["columns"][0]["hits"][0]["passage_id"] == "p-boil" and found["passages"]["p-boil"]["text"] == BOIL


def test_a_passage_is_judged_by_its_rank_with_the_sentence_or_other_words(foundry):
    asked = ("ask", "how long must water boil?", "--model", "bm25")
    with pytest.raises(InputError, match="--save"):
        foundry(*asked, "--grade", "1=2")
    with pytest.raises(InputError, match="write 1=2"):
        foundry(*asked, "--grade", "2=2", "--save", "q.jsonl")
    assert not Path("q.jsonl").exists()
    foundry(*asked, "--grade", "1=1", "--grade", "p-boil=2:ten minutes", "--save", "q.jsonl")
    (question,) = read_questions(Path("q.jsonl"))
    assert [(j.grade, j.evidence) for j in question.judgements] == [(2, "ten minutes")], "the passage's last grade"
    assert "judged: answers" in foundry(*asked, "--save", "q.jsonl")
    told = json.loads(foundry(*asked, "--save", "q.jsonl", "--format", "json"))
    assert told["judged"] == {"p-boil": {"grade": 2, "evidence": "ten minutes"}}
    foundry(*asked, "--grade", "1=0", "--save", "q.jsonl")
    assert "judged: does neither" in foundry(*asked, "--save", "q.jsonl")


def test_a_number_that_is_a_rank_and_another_passages_id_is_not_guessed(foundry, tmp_path: Path):
    rows = [
        {"passage_id": i, "doc_id": "d", "text": text, "url": "https://example.org/a.pdf", "title": "Wells"}
        | {"page": 1, "start_char": 0, "end_char": len(text), "split": "train"}
        for i, text in {"2": BOIL, "7": "Water in the road below the dam."}.items()
    ]
    put(LocalStore(tmp_path / "store"), PASSAGES, rows)
    asked = ("ask", "how long must you boil the water?", "--model", "bm25", "--save", "q.jsonl")
    with pytest.raises(InputError, match="2 is a rank, and the id of another passage: write rank:2=1 or id:2=1"):
        foundry(*asked, "--grade", "2=1")
    for given, held in (
        ("id:2=2", BOIL),
        ("rank:2=0", "Water in the road below the dam."),
        ("7=1", "Water in the road"),
    ):
        foundry(*asked, "--grade", given)
        (question,) = read_questions(Path("q.jsonl"))
        assert question.judgements[-1].evidence.startswith(held)
        Path("q.jsonl").unlink()


def test_ranks_fused_by_their_place_are_told_apart(foundry):
    told = foundry("ask", "is the water below the dam?", "--model", "rrf(bm25)")
    assert "0.0164" in told and "0.0161" in told


def test_a_pool_is_written_graded_and_read_back(foundry):
    foundry("ask", "is the road open?", "--model", "bm25", "--grade", "1=0", "--save", "q.jsonl")
    told = foundry("judge", "pool", "pool.md", "--model", "bm25", "--questions", "q.jsonl", "--top", "2")
    assert "1 passages of 1 questions, 1 of them graded already" in told
    pool = Path("pool.md")
    pool.write_text(pool.read_text().replace("- grade: 0 passage p-road", "- grade: 2 passage p-road"))
    assert "1 judged; q.jsonl has 1 questions" in foundry("judge", "read", "pool.md", "--save", "q.jsonl")
    assert [j.grade for j in read_questions(Path("q.jsonl"))[0].judgements] == [2]
    pool.write_text(f"## qa: is the road open?\n\n- grade: 0 passage p-road\n- quote: {ROAD[:30]}\n")
    foundry("judge", "read", "pool.md", "--save", "q.jsonl")
    assert [j.grade for j in read_questions(Path("q.jsonl"))[0].judgements] == [0], "the passage's last grade"
