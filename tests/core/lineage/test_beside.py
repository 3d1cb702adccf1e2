"""What changed in a long cell is what a comparison shows of it."""

from __future__ import annotations

from pipeline_tasks.core.lineage.beside import beside
from pipeline_tasks.core.lineage.compare import compare
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import RANKINGS
from tests.stores import put


def test_a_long_text_begins_before_its_first_difference():
    same = "word " * 300
    assert beside(f"{same}old end", f"{same}new end") == (f"…{same[-80:]}old end", f"…{same[-80:]}new end")
    old, new = beside("a" + same, "b" + same)
    assert (old, new) == ("a" + same[:399] + "…", "b" + same[:399] + "…")
    assert beside(same, same + "more") == ("…" + same[-80:], "…" + same[-80:] + "more")
    assert beside("short old", "short new") == ("short old", "short new")


def test_a_long_list_begins_with_the_first_item_that_differs():
    old = [f"p{i}" for i in range(50)]
    new = [*old[:30], "other", *old[31:]]
    assert beside(old, new) == (
        ["… 30 alike", *old[30:38], "… 12 more"],
        ["… 30 alike", "other", *old[31:38], "… 12 more"],
    )
    assert beside(old, old[:40]) == (["… 40 alike", *old[40:48], "… 2 more"], ["… 40 alike"])
    assert beside([1, 2], [1, 3]) == ([1, 2], [1, 3])


def test_what_differs_inside_of_lists_and_objects_is_seen_too():
    same = "word " * 300
    old, new = beside([{"text": f"{same}old", "n": 1}], [{"text": f"{same}new", "n": 1, "more": None}])
    assert old == [{"text": f"…{same[-80:]}old", "n": 1}]
    assert new == [{"text": f"…{same[-80:]}new", "n": 1, "more": None}]
    assert beside(None, list(range(10))) == (None, [*range(8), "… 2 more"])


def test_a_ranking_that_changed_far_down_is_shown_there(tmp_path):
    store = LocalStore(tmp_path)
    ids = [f"p{i:03d}" for i in range(100)]
    row = {"query_id": "q", "intent": "qa"}
    old = put(store, RANKINGS, [row | {"passage_ids": ids}], dataset="rankings/a")
    new = put(store, RANKINGS, [row | {"passage_ids": [*ids[:70], "other", *ids[71:]]}], dataset="rankings/a")
    (changed,) = compare(Reader(store), old, new)["changed"]
    (cell,) = changed["columns"]
    assert (cell["old"][:2], cell["new"][:2]) == (["… 70 alike", "p070"], ["… 70 alike", "other"])
