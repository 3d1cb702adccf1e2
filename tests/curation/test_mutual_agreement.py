from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.mutual_agreement import MutualAgreementParams, mutual_agreement
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from tests.curation.conftest import SPLIT_OF
from tests.stores import go, put, reasons, rejects, rows

MODELS = ("one", "two")


def test_a_query_is_labelled_or_refused_for_its_own_reason(store):
    outcome = go(store, mutual_agreement, models=MODELS, top_n=2, strategy="mutual")
    labelled = {row["query_id"]: row for row in rows(store, "labelled")}
    assert {query: row["positive_id"] for query, row in labelled.items()} == {
        "q-t1": "t1",
        "q-t2": "g-t2",
        "q-t4": "t4",
        "q-d1": "d1",
    }
    refused = rejects(store, "labelled")
    assert {query: row["reason"] for query, row in refused.items()} == {
        "q-h1": "held_out",
        "q-t3": "positive_held_out",
        "q-d2": "no_agreement",
    }
    assert refused["q-t3"]["detail"] == "h3 is in split test"
    assert refused["q-d2"]["detail"] == "one: t2 t1; two: d3 h3"
    assert outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == 7


def test_a_label_tells_what_each_model_voted(store):
    go(store, mutual_agreement, models=MODELS, top_n=2, strategy="mutual")
    row = next(row for row in rows(store, "labelled") if row["query_id"] == "q-t2")
    assert (row["positive"], row["source_passage_id"], row["split"]) == ("text for t2", "t2", "train")
    assert (row["query"], row["intent"], row["best_model"]) == ("about t2?", "qa", "one")
    assert [vote["model"] for vote in row["votes"]] == ["one", "two"]
    for vote in row["votes"]:
        assert (vote["passage_ids"], vote["positive_rank"]) == (["g-t2", "t3"], 1)
        assert vote["positive_score"] == pytest.approx(0.9)


def test_a_passage_of_another_split_is_no_positive_even_where_all_agree(store):
    """Asked for the top 4, the models agree on t2 for a development query: a training page is no dev positive."""
    go(store, mutual_agreement, models=("one",), top_n=4, strategy="mutual")
    assert rejects(store, "labelled")["q-d2"]["reason"] == "positive_held_out"


def test_rankings_that_lack_a_model_or_a_query_are_the_callers_mistake(store):
    with pytest.raises(InputError, match="two"):
        go(store, mutual_agreement, {"rankings": ["rankings/one"]}, models=MODELS, strategy="mutual")
    with pytest.raises(InputError, match="one judges any twice; name each model once"):
        go(store, mutual_agreement, models=("one", "one"), strategy="mutual")
    put(store, RANKINGS, [], dataset="rankings/two")
    with pytest.raises(InputError, match="rankings/two"):
        go(store, mutual_agreement, models=MODELS, strategy="mutual")


def test_a_general_domain_query_may_have_its_own_positive(store):
    pair = {"query_id": "q-x", "passage_id": "x", "intent": "qa", "query": "about x?", "positive_id": "g-x"}
    put(store, PAIRS, [pair | {"positive": "text for x", "split": "train", "origin": "gd"}], dataset="mtp")
    for model in MODELS:
        row = {"query_id": "q-x", "passage_ids": ["g-x", "t1"], "scores": [0.9, 0.5]}
        put(store, RANKINGS, [row], dataset=f"rankings/{model}")
    go(store, mutual_agreement, models=MODELS, strategy="mutual")
    assert [(row["positive_id"], row["positive"]) for row in rows(store, "labelled")] == [("g-x", "text for x")]


def labels(store, **params) -> dict[str, str]:
    go(store, mutual_agreement, **{"models": MODELS, "strategy": "mutual"} | params)
    return {row["query_id"]: row["positive_id"] for row in rows(store, "labelled")}


def test_each_strategy_keeps_its_own_queries(store):
    assert labels(store, strategy="mutual", top_n=1) == {"q-t1": "t1", "q-t2": "g-t2", "q-t4": "t4", "q-d1": "d1"}
    assert labels(store, strategy="identical") == {"q-t1": "t1", "q-t2": "g-t2", "q-t4": "t4", "q-d1": "d1"}
    assert reasons(store, "labelled") == {"held_out": 1, "positive_held_out": 1, "no_agreement": 1}
    assert labels(store, strategy="consistency") == {"q-t2": "g-t2"}
    assert reasons(store, "labelled") == {"held_out": 1, "not_retrieved": 5}
    assert labels(store, strategy="consistency", top_n=4) == {f"q-{s}": f"g-{s}" for s in ("t1", "t2", "d2")}
    assert labels(store, strategy="none") == {f"q-{s}": f"g-{s}" for s in ("t1", "t2", "t3", "t4", "d1", "d2")}


def test_a_positive_below_the_top_n_still_has_its_rank_and_score(store):
    go(store, mutual_agreement, models=MODELS, strategy="none")
    votes = {row["query_id"]: row["votes"] for row in rows(store, "labelled")}
    assert [vote["positive_rank"] for vote in votes["q-t4"]] == [8, 8]
    assert [vote["positive_score"] for vote in votes["q-t4"]] == pytest.approx([0.55, 0.55])
    assert [vote["positive_rank"] for vote in votes["q-d2"]] == [4, 4]
    assert votes["q-d2"][1]["passage_ids"] == ["d3", "h3"]


def test_a_positive_that_is_not_ranked_keeps_the_score_that_the_ranking_knows(store):
    found = rows(store, "rankings/one")
    for row in found:
        if row["query_id"] == "q-t1":
            row |= {"passage_ids": ["t2"], "scores": [0.5], "positive_score": 0.125}
    put(store, RANKINGS, found, dataset="rankings/one")
    go(store, mutual_agreement, models=("one",), strategy="none")
    vote = next(row["votes"] for row in rows(store, "labelled") if row["query_id"] == "q-t1")[0]
    assert (vote["positive_rank"], vote["positive_score"]) == (None, 0.125)


def test_every_intent_has_judges_of_its_own(store):
    """The second model disagrees on d2; where the first alone judges, d2 has its best passage as label."""
    pairs = rows(store, "mtp")
    for row in pairs:
        row["intent"] = "sts" if row["query_id"] == "q-t2" else "qa"
    put(store, PAIRS, pairs, dataset="mtp")
    go(store, mutual_agreement, judges={"any": ["two", "one"], "sts": ["one"]}, strategy="mutual")
    found = {row["query_id"]: row for row in rows(store, "labelled")}
    assert [vote["model"] for vote in found["q-t1"]["votes"]] == ["two", "one"]
    assert [vote["model"] for vote in found["q-t2"]["votes"]] == ["one"]
    assert (found["q-t1"]["best_model"], found["q-t2"]["best_model"]) == ("two", "one")
    with pytest.raises(InputError, match="no model judges queries of intent 'qa'"):
        go(store, mutual_agreement, judges={"sts": ["one"]}, strategy="mutual")


def test_by_default_the_assignment_of_the_settings_judges():
    params = MutualAgreementParams()
    assert set(params.judges) == {"qa", "qadoc", "twitter", "factcheck", "nli", "sts"}
    assert all(set(panel) <= set(params.models) and len(panel) == 3 for panel in params.judges.values())
    assert MutualAgreementParams(models=("a", "b")).judges == {"any": ("a", "b")}
    assert MutualAgreementParams(judges={"qa": ("a",), "sts": ("b", "a")}).models == ("a", "b")


def general(store, origins: list[str]) -> None:
    """Pairs of the general domain that no model agrees on, beside those of the domain."""
    more = [
        {"query_id": f"x-{i:02}", "intent": "qa", "query": f"x{i}?", "positive_id": f"gx-{i}", "positive": f"text {i}"}
        | {"split": "train", "origin": origin}
        for i, origin in enumerate(origins)
    ]
    put(store, PAIRS, rows(store, "mtp"), more, dataset="mtp")
    for model, best in (("one", "t1"), ("two", "t2")):
        ranked = [{"query_id": row["query_id"], "passage_ids": [best], "scores": [0.9]} for row in more]
        put(store, RANKINGS, rows(store, f"rankings/{model}"), ranked, dataset=f"rankings/{model}")


def test_general_pairs_are_not_filtered_unless_named(store):
    general(store, ["gd/one", "gd/two"])
    found = labels(store)
    assert (found["x-00"], found["x-01"], "q-d2" in found) == ("gx-0", "gx-1", False)
    found = labels(store, filtered=("dm", "gd/two"))
    assert "x-00" in found and "x-01" not in found
    assert rejects(store, "labelled")["x-01"]["reason"] == "no_agreement"


def test_an_origin_is_capped_by_hash_and_a_refresh_hardly_moves_the_sample(store):
    general(store, ["gd/one"] * 20 + ["gd/two"] * 5)
    kept = {q for q in labels(store, most_general=10) if q.startswith("x")}
    assert len(kept) == 15 and {f"x-{i}" for i in range(20, 25)} <= kept
    refused = rejects(store, "labelled")
    assert sum(row["reason"] == "over_cap" for row in refused.values()) == 10
    put(store, PAIRS, [row for row in rows(store, "mtp") if row["query_id"] != "x-19"], dataset="mtp")
    again = {q for q in labels(store, most_general=10) if q.startswith("x")}
    assert len(kept ^ again) <= 2
    assert len([q for q in labels(store) if q.startswith("q")]) == 4, "pairs of the domain are never capped"


def test_an_origin_may_have_a_cap_of_its_own_also_the_domain_and_one_of_zero_leaves_it_out(store):
    general(store, ["gd/one"] * 20 + ["gd/two"] * 5)
    capped = labels(store, most_general=10, caps={"gd/two": 0, "dm": 2})
    n = {first: sum(query.startswith(first) for query in capped) for first in "xq"}
    assert n == {"x": 10, "q": 2} and all(int(query[2:]) < 20 for query in capped if query.startswith("x"))
    details = {
        row["detail"].split(",")[0] for row in rejects(store, "labelled").values() if row["reason"] == "over_cap"
    }
    assert details == {f"beyond {cap} pairs of its origin" for cap in (10, 0, 2)}
    with pytest.raises(
        InputError, match="caps has 'gd/tow', and no query is of that origin; there are dm, gd/one, gd/"
    ):
        labels(store, caps={"gd/tow": 1})


def test_caps_that_nobody_gives_change_no_version():
    assert "caps" not in mutual_agreement.parse({"models": MODELS}).identity()
    assert "caps" in mutual_agreement.parse({"models": MODELS, "caps": {"dm": 1}}).identity()


def test_every_query_is_kept_or_refused_once_and_counted(store):
    general(store, ["gd"])
    outcome = go(store, mutual_agreement, models=MODELS, strategy="mutual")
    keys = [row["query_id"] for row in rows(store, "labelled")] + [*rejects(store, "labelled")]
    assert sorted(keys) == sorted(row["query_id"] for row in rows(store, "mtp"))
    assert outcome.counters["kept_of_origin/dm"] == 4 and outcome.counters["kept_of_origin/gd"] == 1
    assert outcome.counters["kept_of_intent/qa"] == 5 and outcome.counters["own_positives"] == 2


def test_a_label_does_not_depend_on_how_rows_lie_in_parts(store):
    go(store, mutual_agreement, models=MODELS, strategy="mutual")
    whole = rows(store, "labelled")
    for name, schema in (("mtp", PAIRS), ("rankings/one", RANKINGS), ("rankings/two", RANKINGS)):
        found = rows(store, name)
        put(store, schema, [], *([row] for row in reversed(found)), [], dataset=name)
    go(store, mutual_agreement, models=MODELS, strategy="mutual")
    again = Version.open(store, Ref.parse("labelled")).table().to_pylist()
    assert sorted(whole, key=lambda r: r["query_id"]) == sorted(again, key=lambda r: r["query_id"])
    assert {SPLIT_OF[row["source_passage_id"]] for row in again} == {"train", "dev"}


@pytest.mark.parametrize("strategy", ["mutual", "none"])
def test_a_query_whose_passage_was_held_out_since_is_refused_whatever_its_positive_is(store, strategy):
    """Its own written positive, on which the models agree, still has the split of the pair."""
    passages = rows(store, "passages")
    for row in passages:
        row["split"] = {"t2": "test", "d1": "train"}.get(row["passage_id"], row["split"])
    put(store, PASSAGES, passages)
    assert not {"q-t2", "q-d1"} & set(labels(store, strategy=strategy))
    refused = {name: (row["reason"], row["detail"]) for name, row in rejects(store, "labelled").items()}
    assert (refused["q-t2"], refused["q-d1"]) == (
        ("other_side", "t2 is in split test"),
        ("other_side", "d1 is in split train"),
    )
