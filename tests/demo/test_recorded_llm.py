"""A recording answers the real prompts, through the real client, and only about what was written."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import httpx
import pytest

from pipeline_tasks.cli.domain_check import check_domain
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.demo.blocks import parse_blocks
from pipeline_tasks.demo.recorded_llm import Recording, Written, load_recording, main, read_recorded, serve_recorded
from pipeline_tasks.demo.sample import load_documents
from pipeline_tasks.domains import folder_of
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.synthesis.checking.parse import Pair, parse_need, parse_pair
from pipeline_tasks.synthesis.prompting.prompts import load_prompts

DOMAIN, OTHER = folder_of("disaster"), folder_of("food_safety")
FILES = sorted(file for domain in (DOMAIN, OTHER) for file in (domain / "recordings").glob("*.jsonl"))
BLOCKS = {
    document.name: [block.text for block in parse_blocks(document.body)]
    for domain in (DOMAIN, OTHER)
    for document in load_documents(domain / "sample")
}
PASSAGE = "Sirens warn people outdoors. Volunteers fill sandbags at the fairground before the river rises in spring."
WRITTEN = Written(
    intent="qa",
    evidence="Volunteers fill sandbags at the fairground before the river rises in spring.",
    need="where volunteers fill sandbags",
    query="Where are sandbags filled ahead of a spring flood?",
    positive="Volunteers fill sandbags at the fairground before the river rises.",
)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording([WRITTEN], DOMAIN)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_written_about_a_document_passes_the_checks_of_every_answer(file: Path) -> None:
    rows, domain = list(read_recorded(file)), file.parents[1]
    here = Recording(rows, domain)
    for row in rows:
        homes = [text for text in BLOCKS[file.stem] if row.evidence in text]
        assert homes, f"not in the document: {row.evidence}"
        prompts = load_prompts(domain, row.intent)
        need = prompts.ask_need(homes[0], key=row.query)
        assert parse_need(here.answer(need.text), need) in {other.need for other in rows}, row
        pair = prompts.ask_pair(homes[0], row.need, key=row.query)
        assert parse_pair(here.answer(pair.text), pair) == Pair(row.query, row.positive), row


@pytest.mark.parametrize(("domain", "enough"), [(DOMAIN, 60), (OTHER, 14)], ids=["disaster", "food_safety"])
def test_a_recording_has_enough_of_every_intent_and_says_nothing_twice(domain: Path, enough: int) -> None:
    rows = [row for file in (domain / "recordings").glob("*.jsonl") for row in read_recorded(file)]
    counts = Counter(row.intent for row in rows)
    assert counts.keys() == load_intents(domain).keys() and min(counts.values()) >= enough, counts
    assert len({(row.intent, row.query.lower()) for row in rows}) == len(rows)


def test_both_apis_answer_as_a_model_would(recording: Recording) -> None:
    prompts = load_prompts(DOMAIN, "qa")
    need = prompts.ask_need(PASSAGE, key="p1")
    pair = prompts.ask_pair(PASSAGE, WRITTEN.need, key="p1", led=False)
    with serve_recorded(recording) as url, httpx.Client(base_url=url) as client:
        assert [model["id"] for model in client.get("/models").json()["data"]] == [recording.name]
        said = client.post("/completions", json={"model": recording.name, "prompt": need.text}).json()
        assert parse_need(said["choices"][0]["text"], need) == WRITTEN.need
        messages = [{"role": "user", "content": pair.text}]
        chat = client.post("/chat/completions", json={"model": recording.name, "messages": messages}).json()
        assert parse_pair(chat["choices"][0]["message"]["content"], pair) == Pair(WRITTEN.query, WRITTEN.positive)
        assert chat["usage"]["total_tokens"] > 0
        another = client.post("/completions", json={"model": "another", "prompt": need.text})
        assert another.status_code == 404 and recording.name in another.json()["error"]["message"]
        for chat in ([{"role": "system", "content": "Write."}, *messages], [{"role": "system", "content": pair.text}]):
            told = client.post("/chat/completions", json={"model": recording.name, "messages": chat})
            assert (told.status_code, told.json()["error"]["message"]) == (
                400, "this writer continues texts: ask it with api=completions",
            )  # fmt: skip
        assert client.post("/chat/completions", json={"messages": ["hello"]}).status_code == 400
        assert client.post("/completions", content=b"[").status_code == 400
        assert client.post("/embeddings", json={"prompt": "a"}).status_code == 404


@pytest.mark.parametrize("asked", ["another passage", "another need", "another intent", "no prompt at all"])
def test_nothing_is_made_up(recording: Recording, asked: str) -> None:
    qa = load_prompts(DOMAIN, "qa")
    prompt = {
        "another passage": qa.ask_need("A passage about drought and cattle that nobody wrote about.", key="k").text,
        "another need": qa.ask_pair(PASSAGE, "who pays for sandbags", key="k").text,
        "another intent": load_prompts(DOMAIN, "nli").ask_need(PASSAGE, key="k").text,
        "no prompt at all": "hello",
    }[asked]
    assert recording.answer(prompt) == ""


@pytest.mark.parametrize("task", ["Write what is wanted.\n", "Write.\n\nWhat is wanted?", "{need}\n\nOr more."])
def test_a_task_may_have_any_line_breaks(tmp_path: Path, task: str) -> None:
    qa, mine = DOMAIN / "prompts" / "qa.toml", tmp_path / "mine"
    shutil.copytree(DOMAIN, mine)
    before = load_prompts(DOMAIN, "qa")
    text, told = qa.read_text(), task.format(need=before.need.task)
    assert before.pair.task in text
    (mine / "prompts" / "qa.toml").write_text(
        re.sub(r"(\[pair\]\n)task = .*", lambda m: m[1] + "task = " + json.dumps(told), text)
    )
    prompts, here = load_prompts(mine, "qa"), Recording([WRITTEN], mine)
    assert prompts.pair.task == told
    pair, need = prompts.ask_pair(PASSAGE, WRITTEN.need, key="p1", led=False), prompts.ask_need(PASSAGE, key="p1")
    assert parse_pair(here.answer(pair.text), pair) == Pair(WRITTEN.query, WRITTEN.positive)
    assert parse_need(here.answer(need.text), need) == WRITTEN.need


def test_two_prompts_with_one_task_are_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(DOMAIN, mine)
    shutil.copy(mine / "prompts" / "qa.toml", mine / "prompts" / "nli.toml")
    said = r"mine: need.task of prompts/(qa|nli).toml and need.task of prompts/(qa|nli).toml are one text"
    with pytest.raises(InputError, match=said):
        Recording([], mine)
    assert any(re.search(said, error) for error in check_domain(mine).errors)


def test_another_text_has_another_name(recording: Recording) -> None:
    other = Recording([WRITTEN.model_copy(update={"query": "Sandbags, where?"})], DOMAIN)
    assert other.name != recording.name


def test_a_port_that_is_taken_is_told(recording: Recording, capsys) -> None:
    with serve_recorded(recording) as url:
        port = url.rpartition(":")[2].partition("/")[0]
        assert main(["--port", port]) == InputError.exit_code
    assert f"port {port} on 127.0.0.1 is taken" in capsys.readouterr().err


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps({"intent": "qa"}) + "\n")
    with pytest.raises(InputError, match=r"x\.jsonl, line 1"):
        list(read_recorded(file))
    with pytest.raises(InputError, match="OPENAI_BASE_URL"):
        load_recording(tmp_path)
