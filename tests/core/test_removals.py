from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core import removals
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Manifest, Part, Removal
from pipeline_tasks.core.partitions import Rows
from pipeline_tasks.core.parts import read_part, write_rows
from pipeline_tasks.core.removals import PREFIX, RemovedRows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import REMOVED, Version, commit, point
from tests.core.toy_steps import SCALED, latest, make, toy_list, toy_scale, toy_unique
from tests.stores import put

N_PARTS = 20


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """``scaled`` has 20 parts of five rows; three removals name rows, two of them in the later parts alone."""
    store = LocalStore(tmp_path / "store")
    rows = [{"scaled_id": f"s{n}", "item_id": f"i{n % 5}", "value": n} for n in range(5 * N_PARTS)]
    parts = [rows[start : start + 5] for start in range(0, len(rows), 5)]
    whole = Version.open(store, put(store, SCALED, *parts)).manifest
    first = [_keys(store, "scaled_id", ["s0", "s7", "s98", "s99"], 0), _keys(store, "item_id", ["i2", "i3"], 10)]
    later = _keys(store, "scaled_id", ["s8", "s55", "s99"], 2)
    some = whole.model_copy(update={"id": "1" * 16, "removals": [*first, later]})
    commit(store, some.model_copy(update={"rows": 100 - len(RemovedRows.of(store, some))}))
    point(store, some.ref)
    return store


def _keys(store: LocalStore, column: str, keys: list[str], first: int) -> Removal:
    return Removal(
        part=write_rows(store, pa.table({"key": keys}, schema=REMOVED)), column=column, first=first, last=N_PARTS
    )


def _left() -> list[int]:
    return [n for n in range(100) if n not in {0, 7, 55, 98, 99} and not (n >= 50 and n % 5 in {2, 3})]


def test_what_is_removed_by_several_columns_and_in_some_parts_is_not_read(store):
    version = latest(store, "scaled")
    assert version.table()["value"].to_pylist() == _left()
    assert version.manifest.rows == len(_left())
    assert [n for block in version.batches(["value"], 2) for n in block["value"].to_pylist()] == _left()
    assert version.removed.columns(19).keys() == {"scaled_id", "item_id"}


@pytest.mark.parametrize("column", ["scaled_id", "value"])
def test_further_rows_are_left_out_beside_those_that_are_removed(store, column):
    version = latest(store, "scaled")
    further = [np.array([0, 4]) if number % 2 else np.array([], int) for number in range(N_PARTS)]
    fewer = replace(version, known=version.removed.plus(column, further))
    left = [n for n in _left() if n // 5 % 2 == 0 or n % 5 not in {0, 4}]
    assert fewer.table()["value"].to_pylist() == left and version.table()["value"].to_pylist() == _left()
    rows = pickle.loads(pickle.dumps(Rows.between(fewer, 9, N_PARTS)))
    assert [n for table in rows.tables(["value"]) for n in table["value"].to_pylist()] == [n for n in left if n >= 45]


def test_keys_are_looked_up_once_however_many_parts_and_readers_there_are(store, monkeypatch):
    for key in store.keys(PREFIX):
        store.delete(key)
    read, looked_up = [], removals._looked_up
    monkeypatch.setattr(removals, "_looked_up", lambda *given: read.append(given[2]) or looked_up(*given))
    for _ in range(3):
        assert latest(store, "scaled").table(["value"])["value"].to_pylist() == _left()
    assert [len(together) for together in read if together] == [1, 2], "once for each column"


def test_a_column_that_is_asked_for_is_all_that_is_read(store, monkeypatch):
    latest(store, "scaled").table(["value"])
    asked = []
    monkeypatch.setattr(
        "pipeline_tasks.core.versions.read_part", lambda *given: asked.append(given[2]) or read_part(*given)
    )
    latest(store, "scaled").table(["value"])
    assert asked == [["value"]] * N_PARTS


@pytest.mark.parametrize("torn", [None, b"", b"PAR1"])
def test_positions_that_are_lost_or_torn_are_looked_up_again(store, torn):
    for key in list(store.keys(PREFIX)):
        store.delete(key) if torn is None else store.replace(key, torn)
    assert latest(store, "scaled").table()["value"].to_pylist() == _left()
    assert latest(store, "scaled").removed.rows(0).tolist() == [0]


def test_a_refresh_looks_up_what_it_removes_and_nothing_else(tmp_path, monkeypatch):
    store, rows = LocalStore(tmp_path / "store"), {f"{n}": n for n in range(40)}
    make(store, toy_list, rows=rows)
    for gone in ("3", "4"):
        rows = {item: value for item, value in rows.items() if item != gone}
        make(store, toy_list, rows=rows)
        make(store, toy_scale)
    known = set(store.keys(PREFIX))
    make(store, toy_list, rows=rows | {"40": 40})
    assert latest(store, "items").table().num_rows == 39
    assert set(store.keys(PREFIX)) == known


def test_counters_of_a_step_are_of_the_rows_that_are_left(tmp_path):
    store, rows = LocalStore(tmp_path / "store"), {f"{n}": n for n in range(40)}
    for gone in (0, 5):
        make(store, toy_list, rows={item: n for item, n in rows.items() if n >= gone}, max_withdrawn=1)
        counters = make(store, toy_scale).counters
        left = latest(store, "items").manifest.rows, latest(store, "scaled").manifest.rows
        assert (counters["rows_in"], counters["rows_out"]) == left and left[0] == 40 - gone


def test_positions_of_versions_that_go_go_with_them(tmp_path):
    store = LocalStore(tmp_path / "store")
    for rows in ({"a": 1, "b": 1, "c": 2}, {"a": 1, "d": 1}):
        make(store, toy_list, rows=rows, max_withdrawn=1)
        make(store, toy_scale)
        make(store, toy_unique)
    kept = latest(store, "unique").manifest
    drop(store, find_garbage(store, keep=1, grace_s=-10))
    wanted = {
        removals.positions_key(r, m.parts[r.first : r.last])
        for m in (latest(store, name).manifest for name in ("items", "scaled", "unique"))
        for r in m.removals
    }
    assert wanted and set(store.keys(PREFIX)) == wanted
    assert latest(store, "unique").manifest == kept


def test_the_names_of_parts_are_not_hashed_again_for_each_version_that_has_a_removal_from_one_before(monkeypatch):
    parts = [Part(sha256=digest(n), rows=1, size_bytes=1) for n in range(12)]
    gone = [Removal(part=Part(sha256=digest("gone", n), rows=1, size_bytes=1), column="k", first=0, last=n)
            for n in range(1, 13)]  # fmt: skip
    grown = [_version("grown", parts[:n], gone[:n]) for n in range(1, 13)]
    others = [
        _version("grown", [*parts[1:4], parts[0]], gone[:4]),
        _version("grown", parts[:6], [gone[0].shifted(2), gone[3]]),
        _version("other", parts[:6], gone[:6]),
    ]
    every = [*grown, *others]
    wanted = {removals.positions_key(r, m.parts[r.first : r.last]) for m in every for r in m.removals}
    hashed, key_of = [], removals.positions_key
    monkeypatch.setattr(removals, "positions_key", lambda *given: hashed.append(given) or key_of(*given))
    assert removals.positions_keys(reversed(every)) == wanted
    hashed.clear()
    removals.positions_keys(grown)
    assert len(hashed) == len(grown)


def _version(dataset: str, parts: list[Part], gone: list[Removal]) -> Manifest:
    return Manifest(
        dataset=dataset, id="0" * 16, step="s", code_version="1", rows_schema="d", key="k", params={}, inputs={},
        rows=len(parts), parts=parts, removals=gone,
    )  # fmt: skip


def test_who_may_only_read_the_store_reads_all_the_same(store, monkeypatch):
    for key in list(store.keys(PREFIX)):
        store.delete(key)

    def refuse(*given):
        raise PermissionError("read-only")

    monkeypatch.setattr(LocalStore, "replace", refuse)
    assert latest(store, "scaled").table()["value"].to_pylist() == _left()


def test_pieces_are_looked_up_in_the_whole_version_and_once(store, monkeypatch):
    before = set(store.keys(PREFIX))
    version = latest(store, "scaled")
    found = [Rows.between(version, first, first + 5) for first in range(0, N_PARTS, 5)]
    for first, piece in zip(range(0, N_PARTS, 5), found, strict=True):
        gone = [[n - 5 * i for n in range(5 * i, 5 * i + 5) if n not in _left()] for i in range(first, first + 5)]
        parts = zip(version.manifest.parts[first : first + 5], gone, strict=True)
        assert piece.digest == digest([[part.sha256, rows] for part, rows in parts]), "the memo knows it by this"
    monkeypatch.setattr(removals, "_positions", None)
    sent = [pickle.loads(pickle.dumps(piece)) for piece in found]  # noqa: S301
    assert [n for piece in sent for table in piece.tables(["value"]) for n in table["value"].to_pylist()] == _left()
    assert sum(map(len, sent)) == len(_left()) and sent[3].version.removed.columns(4).keys() == {"scaled_id", "item_id"}
    assert set(store.keys(PREFIX)) == before and not find_garbage(store, grace_s=-10).entries["positions"]
