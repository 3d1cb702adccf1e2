"""What a run would do is told of the rows that there are."""

from __future__ import annotations

from pipeline_tasks.core.execution.todo import Todo
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import ITEMS, toy_bare, toy_scale, toy_unique
from tests.stores import go, put


def test_rows_that_are_removed_are_not_new(tmp_path):
    store = LocalStore(tmp_path)
    put(store, ITEMS, *([{"item_id": name, "value": value}] for name, value in {"a": 1, "b": 1, "c": 2}.items()))
    go(store, toy_scale)
    go(store, toy_unique)
    todo = Todo.of(store, plan(store, toy_bare, {}))
    assert (todo.n_new, todo.n_parts, todo.rows, todo.rows_read) == (3, 3, 2, 2)
    assert "3 of 3 parts, 2 rows of unique@" in todo.line()
