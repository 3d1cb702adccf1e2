"""Instructions, their poison and the check: what is asked, what is kept, and what is refused with which answer."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, TUPLES
from pipeline_tasks.synthesis.check_tuples import QUESTIONS, check_tuples, choices_of
from pipeline_tasks.synthesis.estimate import of_step
from pipeline_tasks.synthesis.llm.wanted import wanted_by
from pipeline_tasks.synthesis.poison_tuples import poison_tuples
from pipeline_tasks.synthesis.write_instructions import write_instructions
from tests.stores import go, put, reasons, rejects, rows

ASKED = {"llm": "m", "concurrency": 1}
QUERY, POSITIVE = "Where do people pack sand?", "Volunteers fill sandbags at the fairground before the river rises."
TOLD = "Name places in town that are open to volunteers."
POISON = {
    "instruction": "Name places for firefighters alone.",
    "query": "Who brings soup to those who help?",
    "text": "At the station of the fire brigade the crews fill sandbags among themselves.",
}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    facts = {"passage_id": "p", "doc_id": "d", "intent": "qa", "query": QUERY, "positive": POSITIVE}
    pairs = [facts | {"query_id": f"q{split}", "positive_id": "x", "split": split} for split in ("train", "test")]
    put(store, PAIRS, pairs, dataset="mtp")
    return store


@pytest.fixture
def model(endpoint, monkeypatch):
    """Starts a stand-in that answers by a function of what it is asked; the settings point at it."""

    def start(answer, *, thought: str = ""):
        def told(body: dict) -> dict:
            asked = [one["content"] for one in body["messages"] if one["role"] == "user" and one["content"][:1] == "{"]
            said = answer(body["messages"][0]["content"], json.loads(asked[-1]))
            message = {"content": json.dumps(said)} | ({"reasoning_content": thought} if thought else {})
            return {"choices": [{"message": message, "finish_reason": "stop"}]}

        there = endpoint((200, told))
        monkeypatch.setenv("OPENAI_BASE_URL", there.url)
        settings.cache_clear()
        return there

    return start


def writer(system: str, asked: dict) -> dict:
    """What a good writer answers."""
    if "instruction" not in asked:
        return {"instruction": TOLD + "\nAnd now something that nobody asked for."}
    (field,) = json.loads(system[system.rindex("{") :])
    return {field: POISON[field] + (f" So it is told: {asked['query']}" if field == "text" else "")}


def test_an_instruction_and_its_poison_are_written_and_each_part_names_its_answer(store, model):
    there = model(writer)
    counters = go(store, write_instructions, **ASKED).counters
    assert counters["not_sampled"] == 1, "those of test documents are for others to judge"
    (pair,) = rows(store, "mtp/instructed")
    assert pair["instruction"] == TOLD, "nothing after the first line break"
    assert pair["query"] == QUERY and pair["positive"] == POSITIVE
    go(store, poison_tuples, **ASKED)
    (found,) = rows(store, "tuples/poisoned")
    assert (found["poisoned_instruction"], found["poisoned_query"]) == (POISON["instruction"], POISON["query"])
    assert found["instruction_passage"].endswith(QUERY) and found["query_passage"].endswith(POISON["query"])
    answers = {found[name] for name in found if name.endswith("response_id")}
    assert len(answers) == 5 == len(there.seen)
    assert all(ResponseStore(store).read(answer) for answer in answers)
    paid = "SELECT response_id FROM part_responses JOIN parts USING (sha256) WHERE dataset = 'tuples/poisoned'"
    assert {row["response_id"] for row in query(store, paid).to_pylist()} == answers, "a version costs its answers"
    asked = [json.loads(one["body"]["messages"][-1]["content"]) for one in there.seen[-2:]]
    assert {(one["instruction"], one["query"]) for one in asked} == {
        (POISON["instruction"], QUERY),
        (TOLD, POISON["query"]),
    }


def test_the_bill_of_poison_has_the_passages_that_are_asked_for_after_it(store, model):
    there = model(writer)
    go(store, write_instructions, **ASKED)
    job, before = plan(store, poison_tuples, ASKED), len(there.seen)
    assert of_step(store, job).n_requests == 4 and len(there.seen) == before
    assert sorted(request.max_tokens for _, request, _ in wanted_by(store, job)) == [160, 200], "for no guess"
    go(store, poison_tuples, **ASKED)
    assert len(there.seen) == before + 4
    again = plan(store, poison_tuples, ASKED | {"again": "2"})
    assert of_step(store, again).n_requests == 0 and not list(wanted_by(store, again))


def test_poison_that_changes_nothing_is_refused(store, model):
    model(
        lambda system, asked: (
            {"instruction": TOLD} if "instruction" in system.rpartition("{")[2] else writer(system, asked)
        )
    )
    go(store, write_instructions, **ASKED)
    go(store, poison_tuples, **ASKED)
    assert rows(store, "tuples/poisoned") == []
    assert reasons(store, "tuples/poisoned") == {"poisoned_instruction_unchanged": 1}


def test_what_has_no_instruction_has_none_to_poison(store, model):
    there = model(writer)
    go(store, poison_tuples, {"pairs": ["mtp"]}, **ASKED)
    assert reasons(store, "tuples/poisoned") == {"no_instruction": len(rows(store, "mtp"))} and not there.seen


def test_a_model_that_continues_texts_is_not_asked(store):
    with pytest.raises(InputError, match="set api=chat"):
        go(store, write_instructions, llm="m", api="completions")


def tuples(store: LocalStore, *names: str) -> None:
    """Tuples whose passages say of which question they are the answer."""
    found = [
        {"query_id": name, "split": "train"}
        | {part: f"{name} {part}" for part in ("query", "instruction", "poisoned_query", "poisoned_instruction")}
        | {column: f"{name}: {told} with {query}" for column, told, query in QUESTIONS}
        for name in names
    ]
    put(store, TUPLES, found, dataset="tuples/poisoned")


def judge(wrong: dict[str, str]):
    """Chooses the right passage, or for a tuple in ``wrong`` that of the named column whatever is asked."""

    def answer(system: str, asked: dict) -> dict:
        name = asked["query"].split()[0]
        column = wrong.get(name)
        told = next((t, q) for c, t, q in QUESTIONS if c == column) if column else None
        parts = told or tuple(asked[part].split()[1] for part in ("instruction", "query"))
        right = f"{name}: {parts[0]} with {parts[1]}"
        return {"reasoning": "r", "number": next(str(p["number"]) for p in asked["passages"] if p["passage"] == right)}

    return answer


def test_only_tuples_whose_three_questions_find_their_passage_stay(store, model):
    tuples(store, "clean", "leaky", "vague")
    there = model(judge({"leaky": "query_passage", "vague": "positive"}), thought="I weighed all of them.")
    go(store, check_tuples, **ASKED, n_distractors=1)
    assert [row["query_id"] for row in rows(store, "tuples/checked")] == ["clean"]
    found = rejects(store, "tuples/checked")
    assert (found["leaky"]["reason"], found["leaky"]["detail"]) == (
        "not_poison",
        "positive: query_passage, instruction_passage: query_passage",
    )
    assert (found["vague"]["reason"], found["vague"]["detail"]) == (
        "ambiguous",
        "instruction_passage: positive, query_passage: positive",
    )
    assert len(there.seen) == 9 and all(
        len(json.loads(one["body"]["messages"][-1]["content"])["passages"]) == 4 for one in there.seen
    )
    kept = [json.loads(path.read_bytes()) for path in (store.root / "responses").rglob("*.json")]
    assert {one["response"]["reasoning"] for one in kept} == {"I weighed all of them."}
    assert "weighed" not in str(rows(store, "tuples/checked")) + str(found)


def test_none_of_them_is_an_answer_and_one_beyond_them_is_none(store, model):
    tuples(store, "a", "b")
    model(lambda system, asked: {"reasoning": "r", "number": "0" if asked["query"].startswith("a") else "9"})
    go(store, check_tuples, **ASKED)
    assert reasons(store, "tuples/checked") == {"ambiguous": 1, "check_unparsable": 1}


def test_the_number_may_be_a_number_and_is_paid_for_once(store, model):
    tuples(store, "a")

    def answer(system: str, asked: dict) -> dict:
        said = judge({})(system, asked)
        return said | {"number": int(said["number"])}

    there = model(answer)
    go(store, check_tuples, **ASKED)
    assert [row["query_id"] for row in rows(store, "tuples/checked")] == ["a"] and len(there.seen) == 3


@pytest.mark.parametrize("number", ["-1", -1, "1 or 2", True, 1.5, None, "none of the 6", "not 3", "all 6 fit"])
def test_what_is_no_number_of_a_passage_is_none(store, model, number):
    tuples(store, "a")
    model(lambda system, asked: {"reasoning": "r", "number": number})
    go(store, check_tuples, **ASKED)
    assert reasons(store, "tuples/checked") == {"check_unparsable": 1}


def test_passages_of_which_a_model_would_see_a_few_words_are_not_asked_about(store, model):
    tuples(store, *map(str, range(60)))
    model(judge({}))
    with pytest.raises(InputError, match=r"tokens for each of 53 passages, and 128 .* or show it fewer"):
        go(store, check_tuples, **ASKED, n_distractors=50)


def test_a_query_that_leaves_no_room_for_passages_is_a_reject_and_the_others_are_asked_about(store, model):
    tuples(store, "short", "long " * 9_000)
    there = model(judge({}))
    go(store, check_tuples, **ASKED)
    assert reasons(store, "tuples/checked") == {"no_room": 1} and len(there.seen) == len(QUESTIONS)


def test_an_answer_that_was_cut_off_is_not_asked_for_again(store, endpoint, monkeypatch):
    cut = {"message": {"content": '{"instruction": "Name places in'}, "finish_reason": "length"}
    there = endpoint((200, {"choices": [cut]}))
    monkeypatch.setenv("OPENAI_BASE_URL", there.url)
    settings.cache_clear()
    go(store, write_instructions, **ASKED)
    assert reasons(store, "mtp/instructed") == {"instruction_too_long": 1} and len(there.seen) == 1


def test_the_order_of_the_passages_tells_nothing():
    rows = [{"query_id": str(n), **{column: f"{column} {n}" for column, _, _ in QUESTIONS}} for n in range(200)]
    places = [choices_of(row, {row["positive"] for row in rows}, 2).columns.index("positive") for row in rows]
    assert min(places.count(place) for place in range(5)) > 20
