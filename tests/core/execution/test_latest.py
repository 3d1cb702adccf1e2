from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.manifest import LATEST, Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.versions import load_manifest, point, ref_key, resolve
from tests.core.together import together
from tests.core.toy_steps import make, toy_list, toy_scale

FIRST = {"a": 1, "b": 2}
MORE = FIRST | {"c": 3}


class Meanwhile(LocalStore):
    """Something else happens just before the next manifest is created."""

    happens: Callable[[], object] | None = None

    def create(self, key: str, data: bytes) -> bool:
        if self.happens and key.startswith("versions/"):
            happens, self.happens = self.happens, None
            happens()
        return super().create(key, data)


class Dying(LocalStore):
    """Its process is killed when it is about to move ``latest``."""

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().swap(key, old, new)


def scale_and_die(root: Path, factor: int) -> None:
    make(Dying(root), toy_scale, factor=factor)


def killed_before_latest(store: LocalStore, factor: int) -> Ref:
    """The version whose manifest a killed run has left."""
    before = set(store.keys("versions"))
    process = get_context("forkserver").Process(target=scale_and_die, args=(store.root, factor))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (made,) = set(store.keys("versions")) - before
    return Ref(dataset="scaled", version=Path(made).stem)


def scale_in_turns(i: int, store: Store) -> str:
    return str(make(store, toy_scale, factor=i + 2).ref)


def named(store: Store, dataset: str) -> Ref:
    return resolve(store, Ref(dataset=dataset))


@pytest.fixture
def store(tmp_path: Path) -> Meanwhile:
    store = Meanwhile(tmp_path / "store")
    make(store, toy_list, rows=FIRST)
    return store


def test_running_an_older_task_again_does_not_move_latest_backwards(store, caplog):
    old, new = make(store, toy_scale, factor=2), make(store, toy_scale, factor=3)
    again = make(store, toy_scale, factor=2)
    assert again.reused and again.ref == old.ref and named(store, "scaled") == new.ref
    assert f"latest of scaled stays {new.ref.version}; `foundry point {old.ref}` moves it" in caplog.text


def test_a_group_of_parts_says_nothing_of_latest(store, caplog):
    make(store, toy_scale, factor=2)
    make(store, toy_scale, factor=3)
    assert run_job(store, plan(store, toy_scale, {"factor": 2}), group=(0, 2)).reused
    assert "latest of" not in caplog.text


@pytest.mark.parametrize("torn", [None, b"", b"\xff", b"../x", b"0" * 16])
def test_a_version_that_is_found_becomes_latest_where_there_is_none(store, torn):
    made = make(store, toy_scale).ref
    if torn is None:
        store.delete(ref_key("scaled"))
    else:
        store.replace(ref_key("scaled"), torn)
    assert make(store, toy_scale).reused and named(store, "scaled") == made


def test_a_slow_build_of_old_inputs_does_not_undo_a_newer_one(store, caplog):
    slow = plan(store, toy_scale, {})

    def overtake() -> None:
        make(store, toy_list, rows=MORE)
        make(store, toy_scale)

    store.happens = overtake
    outcome = run_job(store, slow)
    assert not outcome.reused and load_manifest(store, outcome.ref).rows == len(FIRST)
    assert load_manifest(store, named(store, "scaled")).rows == len(MORE)
    assert f"`foundry point {outcome.ref}` moves it" in caplog.text


def test_of_two_builds_of_the_same_inputs_the_later_one_is_latest(store):
    store.happens = lambda: make(store, toy_scale, factor=3)
    outcome = make(store, toy_scale, factor=2)
    assert named(store, "scaled") == outcome.ref


def test_what_grew_from_a_version_does_not_undo_that_it_was_pointed_back(store):
    first = named(store, "items")
    make(store, toy_list, rows=MORE)
    store.happens = lambda: point(store, first)
    outcome = make(store, toy_list, rows=MORE | {"d": 4})
    assert not outcome.reused and load_manifest(store, outcome.ref).rows == 4
    assert named(store, "items") == first


def test_a_run_that_was_killed_before_it_moved_latest_is_finished_by_the_next(store):
    make(store, toy_scale, factor=2)
    left = killed_before_latest(store, 3)
    assert named(store, "scaled") != left
    again = make(store, toy_scale, factor=3)
    assert again.reused and named(store, "scaled") == again.ref == left
    assert not list(store.keys("moves"))


def test_a_move_that_a_killed_run_left_does_not_undo_a_later_one(store):
    make(store, toy_scale, factor=2)
    left = killed_before_latest(store, 3)
    later = make(store, toy_scale, factor=4).ref
    assert make(store, toy_scale, factor=3).ref == left and named(store, "scaled") == later


def test_builds_at_once_leave_latest_at_one_of_them(any_store):
    make(any_store, toy_list, rows=FIRST)
    made = together(4, scale_in_turns, any_store)
    assert str(named(any_store, "scaled")) in made and len(set(made)) == 4
    assert not list(any_store.keys("moves"))
    again: Outcome = make(any_store, toy_scale, factor=2)
    assert again.reused and any_store.read(ref_key("scaled", LATEST)) is not None
