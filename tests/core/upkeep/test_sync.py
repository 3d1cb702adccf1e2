from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.erasure.listed import Erasure, erased_ids, erasures, note
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.paid.spending import Ledger, key_of, read_state, spent
from pipeline_tasks.core.pointing import move
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.sync import KINDS, sync
from pipeline_tasks.core.versions import Version, manifest_key
from tests.core.store.test_chain import chain
from tests.core.toy_steps import check_whole, latest, make, rows_of, toy_gather, toy_list, toy_scale


@pytest.fixture
def source(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "source")
    chain(store)
    store.create(f"responses/ab/{'ab' * 32}.json", b"{}")
    store.create("batches/ab.json", b"{}")
    Ledger(store, "llm", run="one").take(usd=3.0)
    for dataset in ("items", "bare"):
        store.create(f"remembered/{dataset}/one.parquet", told({"ours": 1, "both": 2}))
    return store


def told(sides: dict[str, int]) -> bytes:
    """A table as a step remembers it."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"name": sorted(sides), "side": [sides[name] for name in sorted(sides)]}), sink)
    return sink.getvalue().to_pybytes()


def everything(store) -> dict[str, bytes | None]:
    return {key: store.read(key) for kind in KINDS for key in store.keys(kind)}


def test_all_of_a_store_goes_there_and_back(source, any_store, tmp_path):
    done = sync(source, any_store)
    assert not done.problems and everything(any_store) == everything(source)
    assert done.copied["versions"] == len(check_whole(source)) and not done.there.total()
    again = sync(source, any_store)
    assert not again.copied.total() and +again.there == done.copied
    home = LocalStore(tmp_path / "home")
    sync(any_store, home)
    assert everything(home) == everything(source)
    assert make(home, toy_scale).reused


def test_one_dataset_brings_its_ancestors_and_nothing_else(source, any_store):
    done = sync(source, any_store, ["scaled"])
    assert not done.problems
    assert rows_of(any_store, "scaled") == rows_of(source, "scaled")
    assert {key.split("/")[1] for key in any_store.keys("versions")} == {"scaled", "items"}
    assert {key.split("/")[1] for key in any_store.keys("refs")} == {"scaled", "items"}
    assert not any(list(any_store.keys(kind)) for kind in ("memo", "responses", "batches", "spending"))
    assert list(any_store.keys("remembered")) == ["remembered/items/one.parquet"]
    check_whole(any_store)
    assert sync(source, any_store, ["scaled/rejects"]).problems == []
    with pytest.raises(InputError, match="nothing@latest is not in the store"):
        sync(source, any_store, ["nothing"])


def test_a_growing_dataset_brings_what_its_last_request_read(tmp_path):
    source, target = LocalStore(tmp_path / "one"), LocalStore(tmp_path / "other")
    asked = []
    for value in (1, 2):
        asked.append(make(source, toy_list, rows={"a": value}).ref)
        gathered = make(source, toy_gather).ref
    source.delete(manifest_key(asked[0]))
    sync(source, target, ["gathered"])
    assert latest(target, "items").manifest.ref == asked[1]
    assert [moved.ref for moved in move(target, gathered, ancestors=True)] == [gathered]


def test_what_is_corrupted_stays_behind_with_all_that_needs_it(source, any_store):
    part = latest(source, "bare").manifest.parts[0]
    source.replace(part.key, b"damaged")
    done = sync(source, any_store)
    assert any(f"{part.key} in {source} is corrupted" in problem for problem in done.problems)
    assert any(problem.startswith("bare@") and "is not copied" in problem for problem in done.problems)
    assert not any_store.exists(part.key) and not list(any_store.folder.glob("tmp/*"))
    assert rows_of(any_store, "unique") == rows_of(source, "unique")
    assert not any_store.exists("refs/bare/latest")
    check_whole(any_store)


def test_refs_follow_the_source_and_older_versions_stay(source, any_store):
    sync(source, any_store)
    before = latest(any_store, "items").manifest.ref
    make(source, toy_list, rows={"new": 1})
    any_store.replace("remembered/items/one.parquet", told({"theirs": 3, "both": 4}))
    any_store.replace("remembered/bare/one.parquet", b"torn")
    done = sync(source, any_store, ["items"])
    found = pq.read_table(pa.BufferReader(any_store.read("remembered/items/one.parquet")))
    assert found.to_pydict() == {"name": ["both", "ours", "theirs"], "side": [2, 1, 3]}, "nothing is forgotten"
    assert any("remembered/bare/one.parquet cannot be read" in said for said in sync(source, any_store).problems)
    assert done.copied["versions"] == 1
    assert rows_of(any_store, "items") == [{"item_id": "new", "value": 1}]
    assert Version.open(any_store, Ref(dataset="items", version=before.version)).table().num_rows > 1


@pytest.mark.parametrize("done", [True, False])
def test_what_either_store_has_erased_stays_erased(source, any_store, done):
    note(source, Erasure(name="one", ids=frozenset({"a", "b"}), done=True))
    note(any_store, Erasure(name="one", ids=frozenset({"a", "c"}), done=done))
    assert sync(source, any_store).copied["erasures"] == 1
    assert list(erasures(any_store)) == [Erasure(name="one", ids=frozenset({"a", "b", "c"}), done=done)]
    assert not sync(source, any_store).copied["erasures"]
    source.replace("erasures/one.json", b"")
    sync(source, any_store)
    assert erased_ids(any_store) == {"a", "b", "c"}, "a list that nobody can read takes nothing away"


def test_what_either_store_has_spent_stays_counted(source, any_store):
    def counted() -> dict[str, float]:
        state = read_state(any_store, key_of("llm"))
        return {"month": spent(state, "usd", "month")} | {run: spent(state, "usd", "run", run) for run in state["runs"]}

    sync(source, any_store)
    assert counted() == {"month": 3.0, "one": 3.0}
    Ledger(any_store, "llm", run="two").take(usd=1.0)
    assert not sync(source, any_store).copied.total() and counted() == {"month": 4.0, "one": 3.0, "two": 1.0}
    Ledger(source, "llm", run="one").take(usd=6.0)
    assert sync(source, any_store).copied["spending"] == 1
    assert counted() == {"month": 9.0, "one": 9.0, "two": 1.0}, "of a day that both have counted, the larger amount"
    any_store.create(key_of("brave"), b"torn")
    Ledger(source, "brave").take(requests=1.0)
    source.replace(key_of("llm"), b"torn")
    done = sync(source, any_store)
    assert counted()["month"] == 9.0 and any_store.read(key_of("brave")) == b"torn"
    assert [problem.partition(" is no ledger")[0] for problem in done.problems] == [
        "spending/brave.json of the target", "spending/llm.json of the source",
    ]  # fmt: skip


@pytest.mark.parametrize("answered", [True, False])
def test_a_batch_is_copied_unless_either_store_has_its_answers(source, any_store, answered):
    source.create("batches/cd.json", json.dumps({"ids": ["ab" * 32, "cd" * 32]}).encode())
    source.create("batches/ef.json", b"torn")
    if answered:
        any_store.create(f"responses/cd/{'cd' * 32}.json", b"{}")
    sync(source, any_store)
    assert any_store.exists("batches/cd.json") != answered and any_store.read("batches/ef.json") == b"torn"


class CutOff(LocalStore):
    """A source whose line is cut after five objects."""

    left = 5

    def copy_to(self, key, path):
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("the line is cut")
        super().copy_to(key, path)


def test_a_copy_that_was_cut_off_goes_on(source, any_store):
    with pytest.raises(ConnectionError):
        sync(CutOff(source.root), any_store)
    held = len(list(any_store.keys("objects")))
    assert held and not list(any_store.keys("versions"))
    done = sync(source, any_store)
    assert done.there["objects"] == held and everything(any_store) == everything(source)


class Moving(LocalStore):
    """A source in which a version is made, and a manifest written anew, while objects are copied."""

    def copy_to(self, key, path):
        if not self.exists("moved"):
            self.create("moved", b"")
            made = latest(self, "items").manifest
            self.replace(manifest_key(made.ref), made.model_copy(update={"erased": ["later"]}).to_bytes())
            make(LocalStore(self.root), toy_list, rows={"new": 1})
        super().copy_to(key, path)


def test_what_was_judged_is_what_is_written(source, tmp_path):
    before, target = everything(source), LocalStore(tmp_path / "target")
    done = sync(Moving(source.root), target)
    assert not done.problems
    after = everything(target)
    assert {key: after[key] for key in before if key.startswith(("versions", "refs"))} == {
        key: data for key, data in before.items() if key.startswith(("versions", "refs"))
    }
    check_whole(target)
    sync(source, target, ["items"])
    assert rows_of(target, "items") == [{"item_id": "new", "value": 1}]
