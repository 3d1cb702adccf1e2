"""One mixture for training: how much of it each task is, and where the task stands."""

from __future__ import annotations

from collections import Counter

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.unify import UnifyParams, unify
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, RELABELLED, TRIPLETS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from tests.stores import go, put, rejects, rows

TASK, OTHER = "find an answer", "find a headline"
SOURCE = {"a": 0, "h": 0, "q": 1, "f": 1, "t": 2}
BUILDS = {"builds": ["mtt/0.65", "mtt/own/topics"]}


def relabelled(name: str, task: str, split: str = "train") -> dict:
    scores = {"likelihoods": [-1.0, -2.0], "relevances": [2.0, 2.0]}
    passages = {"passage_ids": ["p", "n"], "passages": ["the best", "the worst"]} | scores
    return {"query_id": name, "intent": "any", "instruction": task, "query": f"about {name}", "split": split} | passages


def triplet(name: str, intent: str, split: str = "train", **more: str) -> dict:
    texts = {"query": f"about {name}", "positive": "p", "negatives": ["n"]}
    return {"query_id": name, "intent": intent, "split": split} | texts | more


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Three sources: relabelled queries of two tasks; a build without tasks; one that shares a task and a query."""
    store = LocalStore(tmp_path / "store")
    made = [relabelled(f"a{n}", TASK) for n in range(12)] + [relabelled(f"h{n}", OTHER) for n in range(2)]
    put(store, RELABELLED, made[:5], [*made[5:], relabelled("kept", TASK, "dev")])
    of_intents = [triplet(f"q{n}", "qa") for n in range(9)] + [triplet(f"f{n}", "factcheck") for n in range(4)]
    put(store, TRIPLETS, of_intents, dataset="mtt/0.65")
    topics = [triplet(f"t{n}", "any", instruction=TASK) for n in range(12)]
    put(store, INSTRUCTED_TRIPLETS, [*topics, triplet("a3", "any", instruction=TASK)], dataset="mtt/own/topics")
    return store


def tasks_of(found: list[dict]) -> Counter[str]:
    return Counter(row["instruction"] or row["intent"] for row in found if row["split"] == "train")


@pytest.mark.parametrize("most", [3, 5, 24, 100])
def test_every_task_gives_as_many_queries_whatever_sources_have_it(store, most):
    counters = go(store, unify, per_task=most, **BUILDS).counters
    found = rows(store, "mtt/fret")
    there = {TASK: 24, OTHER: 2, "qa": 9, "factcheck": 4}
    assert tasks_of(found) == {task: min(n, most) for task, n in there.items()}
    assert "kept" in {row["query_id"] for row in found}, "other splits are not sampled"
    if most < 100:
        origins = {row["query_id"][0] for row in found if row["instruction"] == TASK and row["split"] == "train"}
        assert origins == {"a", "t"}, "drawn by ids, not by the order of sources"
    n_rejects = len(rejects(store, "mtt/fret"))
    assert len(found) + n_rejects + counters["not_sampled"] == 15 + 13 + 13
    if most == 100:
        assert rejects(store, "mtt/fret")["a3"]["reason"] == "duplicate_id" and not counters["not_sampled"]


def test_an_id_that_comes_twice_in_one_source_is_no_duplicate_of_another(store):
    twice = [triplet("x", "any", query=f"{n} things", instruction=TASK) for n in ("one", "two")]
    put(store, INSTRUCTED_TRIPLETS, twice, dataset="mtt/own/twice")
    go(store, unify, builds=["mtt/own/twice"])
    assert [row["query"] for row in rows(store, "mtt/fret") if row["query_id"] == "x"] == ["one things", "two things"]
    assert "x" not in rejects(store, "mtt/fret")


def test_of_an_id_that_comes_twice_each_row_has_its_own_verdict(store):
    """Whose words are held out, or another source's, is refused; the other row of that id takes part."""
    held = triplet("d", "any", "dev", query="a secret", instruction=TASK)
    shared = triplet("y", "any", query="about a1", positive="the best", instruction=TASK)
    others = [triplet(name, "any", query=f"plain {name}", instruction=TASK) for name in "xy"]
    twice = [triplet("x", "any", query="a secret", instruction=TASK), shared, *others]
    put(store, INSTRUCTED_TRIPLETS, [held, *twice], dataset="mtt/own/twice")
    go(store, unify, builds=["mtt/own/twice"])
    found = [row["query"] for row in rows(store, "mtt/fret") if row["query_id"] in ("x", "y")]
    assert sorted(found) == ["plain x", "plain y"]
    reasons = {name: row["reason"] for name, row in rejects(store, "mtt/fret").items()}
    assert (reasons["x"], reasons["y"]) == ("held_out_query", "duplicate_query")


def test_fewer_of_a_task_are_among_more_and_a_source_has_its_bound_too(store):
    taken = []
    for bounds in ({"per_task": 3}, {"per_task": 5}, {"per_task": 5, "per_source": 4}, {"per_source": 4}):
        go(store, unify, **bounds, **BUILDS)
        taken.append([row for row in rows(store, "mtt/fret") if row["split"] == "train"])
    less, more, both, of_sources = taken
    assert {row["query_id"] for row in less} < {row["query_id"] for row in more}
    for found in (both, of_sources):
        assert max(Counter(SOURCE[row["query_id"][0]] for row in found).values()) == 4
    assert max(tasks_of(both).values()) <= 5 < tasks_of(of_sources)[TASK]
    assert len(both) > 8, "a full task leaves its source's room to other tasks"


def test_queries_that_two_sources_share_take_the_room_of_one_and_are_given_by_one(store):
    """The second source has all of the first's, and as many of its own; the third has no training query of its own."""
    put(store, RELABELLED, [relabelled(f"a{n}", TASK) for n in range(40)])
    put(store, TRIPLETS, [triplet(f"{source}{n}", "qa") for source in "aq" for n in range(40)], dataset="mtt/0.65")
    few = [triplet(f"a{n}", "any", instruction=TASK) for n in range(15)] + [triplet("held", "any", "dev")]
    put(store, INSTRUCTED_TRIPLETS, [*few, triplet("q7", "any", "dev")], dataset="mtt/own/topics")
    counters = go(store, unify, per_source=20, **BUILDS).counters
    found, refused = rows(store, "mtt/fret"), rejects(store, "mtt/fret")
    given = Counter(row["query_id"] for row in found)
    assert set(given.values()) == {1} and given["held"] == given["q7"] == 1
    assert refused.keys() - given.keys() == set(), (
        "what one source gives is a duplicate in the others, and nothing else"
    )
    trained = [row for row in found if row["split"] == "train"]
    of_intent = Counter(row["intent"] for row in trained)
    assert of_intent["qa"] == 20, "the second source has its twenty beside what the others give"
    assert all(row["query_id"] != "q7" for row in trained), "one that a source holds out is trained on from no other"
    assert len(found) + counters["rows_rejected"] + counters["not_sampled"] == 40 + 80 + 17


def test_a_query_of_two_sets_under_two_ids_is_trained_on_once_and_not_where_one_holds_it_out(store):
    """The sets overlap in five queries; one of these is held out by a third source, and one has another positive."""
    held = relabelled("held", TASK, "dev") | {"query": "What  is in BOTH 4?"}
    put(store, RELABELLED, [held, relabelled("r", TASK)])

    def of_set(name: str, n: int, **more: str) -> dict:
        return triplet(f"{name}{n}", "any", query=f"what is in both {n}?", instruction=TASK) | more

    put(store, INSTRUCTED_TRIPLETS, [of_set("a", n) for n in range(5)], dataset="mtt/own/a")
    second = [of_set("b", n) for n in (0, 1, 2, 4)] + [of_set("b", 3, positive="another"), of_set("b", 5)]
    repeated = of_set("b", 5) | {"query_id": "b5too", "negatives": ["m"]}
    put(store, INSTRUCTED_TRIPLETS, [*second, repeated], [of_set("c", 0, instruction=OTHER)], dataset="mtt/own/b")
    both = {"builds": ["mtt/own/a", "mtt/own/b"]}
    go(store, unify, **both)
    assert {row["query_id"] for row in rows(store, "mtt/fret")} == {
        *("held", "r", "a0", "a1", "a2", "a3", "b3", "b5", "b5too", "c0")
    }
    assert {name: row["reason"] for name, row in rejects(store, "mtt/fret").items()} == {
        **dict.fromkeys(("b0", "b1", "b2"), "duplicate_query"),
        **dict.fromkeys(("a4", "b4"), "held_out_query"),
    }
    go(store, unify, per_source=3, **both)
    found = [row for row in rows(store, "mtt/fret") if row["split"] == "train"]
    assert Counter({"c": "b"}.get(row["query_id"][0], row["query_id"][0]) for row in found) == {"r": 1, "a": 3, "b": 3}
    texts = {(row["query"], row["instruction"], row["positive"], *row["negatives"]) for row in found}
    assert len(texts) == 7, "a copy takes no room"


def test_joined_the_task_begins_the_text_and_is_told_nowhere_else(store):
    go(store, unify, **BUILDS)
    apart = {row["query_id"]: row for row in rows(store, "mtt/fret")}
    go(store, unify, format="joined", **BUILDS)
    joined = {row["query_id"]: row for row in rows(store, "mtt/fret")}
    asks = {name: intent.instruction for name, intent in load_intents(domain_folder()).items()}
    assert apart.keys() == joined.keys() and len(joined) == 40
    for name, row in joined.items():
        task = apart[name]["instruction"] or asks[row["intent"]]
        assert row == apart[name] | {"instruction": None, "query": f"{task} about {name}"}


def test_a_query_without_a_task_and_of_no_known_intent_stays_as_it_is(store):
    put(store, TRIPLETS, [triplet("x", "any")], dataset="mtt/plain")
    go(store, unify, format="joined", builds=["mtt/plain"])
    assert {row["query_id"]: row["query"] for row in rows(store, "mtt/fret")}["x"] == "about x"


def test_left_at_their_defaults_they_change_no_version():
    assert set(UnifyParams().identity()) == {"negatives", "n_negatives", "builds", "per_source"}
    said = UnifyParams(per_task=2, format="joined").identity()
    assert (said["per_task"], said["format"]) == (2, "joined") and said["instructions"] == UnifyParams().instructions


def test_what_a_judge_holds_to_be_as_good_as_the_positive_is_no_negative(tmp_path):
    """Its grades alone say so; beside likelihoods they are one of two scores that decided the order."""
    store, names = LocalStore(tmp_path / "store"), [f"p{n}" for n in range(4)]
    graded = {"tied": [3, 3, 2, 3], "alike": [3, 3, 3, 3], "apart": [3, 2, 1, 0]}
    told = [
        relabelled(name, TASK)
        | {"passage_ids": names, "passages": names, "relevances": grades, "likelihoods": [None] * 4}
        for name, grades in graded.items()
    ]
    told.append(told[0] | {"query_id": "both", "likelihoods": [-1.0, -2.0, -3.0, -4.0]})
    only = {"passage_ids": names[:1], "passages": names[:1], "relevances": [3], "likelihoods": [None]}
    told.append(told[0] | only | {"query_id": "only"})  # as where the documents of all others were erased
    put(store, RELABELLED, told)
    for negatives, of_tied in (("last", ["p2"]), ("sampled", ["p2"])):
        go(store, unify, negatives=negatives, n_negatives=3)
        found = {row["query_id"]: row["negative_ids"] for row in rows(store, "mtt/fret")}
        assert found == {"tied": of_tied, "apart": names[1:], "both": names[1:], "only": []}
        assert {name: row["reason"] for name, row in rejects(store, "mtt/fret").items()} == {"alike": "no_negative"}


def test_a_query_that_a_judge_leaves_without_negatives_takes_nobodys_place(tmp_path):
    """A build has one under its id and one under another; a third waits for the room of their task."""
    store, grades = LocalStore(tmp_path / "store"), {"likelihoods": [None, None], "relevances": [3, 3]}
    made = [relabelled(name, TASK, split) | grades for name, split in [("x", "train"), ("y", "train"), ("d", "dev")]]
    put(store, RELABELLED, [*made, relabelled("r", OTHER)])
    mined = {"x": "about x", "z": "about y", "w": "about w"}
    of_build = [triplet(name, "any", query=asks, positive="the best", instruction=TASK) for name, asks in mined.items()]
    put(store, INSTRUCTED_TRIPLETS, [*of_build, triplet("d", "any", "dev")], dataset="mtt/own/topics")
    for bounds in ({}, {"per_task": 3}, {"per_source": 3}):
        counters = go(store, unify, builds=["mtt/own/topics"], **bounds).counters
        assert {row["query_id"] for row in rows(store, "mtt/fret")} == {"r", *mined, "d"}
        assert (counters["rows_rejected"], counters["not_sampled"]) == (3, 0)
        reasons = {name: row["reason"] for name, row in rejects(store, "mtt/fret").items()}
        assert reasons == dict.fromkeys("xyd", "no_negative")


def test_of_two_relabelled_rows_with_one_id_each_has_its_own_negatives(store):
    without = {"likelihoods": [None, None], "relevances": [3, 3]}
    put(store, RELABELLED, [relabelled("a", TASK), relabelled("a", TASK) | {"query": "of other words"} | without])
    go(store, unify)
    assert [row["query"] for row in rows(store, "mtt/fret")] == ["about a"]
    assert [row["reason"] for row in rejects(store, "mtt/fret").values()] == ["no_negative"]
