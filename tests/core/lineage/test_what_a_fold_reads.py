"""A fold reads what is new since the one before, and comes to what a fold of everything comes to."""

from __future__ import annotations

import duckdb
import pytest
import toy

from pipeline_tasks.cli import inspect, stale
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.lineage import DATABASE, facts, fold, query, unfold
from pipeline_tasks.core.lineage.detail import detail
from pipeline_tasks.core.lineage.graph import graph, versions
from pipeline_tasks.core.lineage.metrics import exposition
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.sandbox import Sandbox
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.paid.response_store import ResponseStore, answer_key
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import load_manifest, manifest_key, point
from pipeline_tasks.datasets import PAIRS
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import ITEMS
from tests.stores import put


def _everything(store: LocalStore) -> dict[str, list[tuple]]:
    with duckdb.connect(str(fold(store)), read_only=True) as con:
        tables = con.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()
        views = con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        names = sorted({name for (name,) in tables + views} - {"fold_state", "manifests"})
        return {name: con.sql(f'FROM "{name}" ORDER BY ALL').fetchall() for name in names}


def _anew(store: LocalStore) -> dict[str, list[tuple]]:
    (store.root / DATABASE).unlink()
    return _everything(store)


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Keys of the manifests and events that are read."""
    seen: list[str] = []
    read_all = LocalStore.read_all

    def noted(self, keys):
        for key, data in read_all(self, keys):
            if key.startswith(("versions/", "lineage/")):
                seen.append(key)
            yield key, data

    monkeypatch.setattr(LocalStore, "read_all", noted)
    return seen


def test_only_new_events_and_manifests_and_the_latest_of_each_dataset_are_read(store, read):
    fold(store)
    before = set(store.keys("versions")) | set(store.keys("lineage/events"))
    latest = {manifest_key(Ref(dataset=d, version=v)) for d, v in _latest(store)}
    toy.corpus(store, "a", "z")
    read.clear()
    fold(store)
    assert set(read) & before <= latest and "lineage/" not in str(set(read) & before)
    assert set(store.keys("lineage/events")) - before <= set(read)


def _latest(store: LocalStore) -> list[tuple[str, str]]:
    with duckdb.connect(str(store.root / DATABASE), read_only=True) as con:
        return con.sql("SELECT dataset, version FROM versions WHERE is_latest").fetchall()


def _refresh(store: LocalStore) -> None:
    toy.corpus(store, "a", "twin", "y")
    toy.make(store, toy.toy_needs)


def _point_back(store: LocalStore) -> None:
    (old,) = [r for r in _versions(store, "urls") if r != load_manifest(store, Ref.parse("urls")).ref][:1]
    point(store, old)


def _versions(store: LocalStore, dataset: str) -> list[Ref]:
    keys = [key.removeprefix(f"versions/{dataset}/") for key in store.keys(f"versions/{dataset}")]
    return [Ref(dataset=dataset, version=key.removesuffix(".json")) for key in keys if "/" not in key]


def _end_what_had_begun(store: LocalStore) -> None:
    log = EventLog(store, "toy_slow", "1")
    log.emit("START", inputs={}, output=None, facts={"dataset": "urls"})
    fold(store)
    log.emit("COMPLETE", inputs={}, output=None, facts={"dataset": "urls", "counters": {"rows_in": 1}})


def _collect(store: LocalStore) -> None:
    drop(store, find_garbage(store, keep=1, grace_s=-10))


def _begin(store: LocalStore) -> None:
    EventLog(store, "toy_killed", "1").emit("START", inputs={}, output=None, facts={"dataset": "urls"})


def test_what_many_folds_come_to_is_as_if_everything_were_read_at_once(store):
    for change in (_refresh, _point_back, _begin, _end_what_had_begun, _collect):
        fold(store)
        change(store)
    assert _everything(store) == _anew(store)


def test_a_run_whose_end_was_read_before_its_start_has_one_row(store):
    log = EventLog(store, "toy_copied", "1")
    log.emit("START", inputs={}, output=None, facts={"dataset": "urls", "runtime": {"device": None}})
    (start,) = store.root.glob(f"lineage/events/*-{log.run_id[:8]}-start.json")
    data = start.read_bytes()
    start.unlink()
    log.emit("COMPLETE", inputs={}, output=None, facts={"dataset": "urls", "runtime": {"device": "cpu"}})
    fold(store)
    start.write_bytes(data)
    assert _everything(store) == _anew(store)


def test_an_answer_that_was_broken_off_and_bought_again_is_read_again(store):
    responses, name = ResponseStore(store), "ab" + "0" * 62
    for reason, n_tokens, cost_usd in (("abort", 1, 0.25), ("stop", 1_000, 0.5)):
        answer = {"finish_reason": reason, "usage": {"prompt_tokens": n_tokens}}
        responses.write(name, {"request": {"model": "m"}, "response": answer, "cost_usd": cost_usd})
        _begin(store)
        found = query(store, f"SELECT prompt_tokens, cost_usd FROM llm_calls WHERE response_id = '{name}'").to_pylist()
    assert found == [{"prompt_tokens": 1_000, "cost_usd": 0.75}]
    assert _everything(store) == _anew(store)


def test_a_version_that_was_seen_before_its_run_ended_gets_the_time_of_its_run(store):
    events = store.root / "lineage/events"
    known = set(events.iterdir())
    toy.corpus(store, "a", "z")
    ends = [path for path in events.iterdir() if path not in known and "complete" in path.name]
    kept = {path: path.read_bytes() for path in ends}
    for path in ends:
        path.unlink()
    fold(store)
    for path, data in kept.items():
        path.write_bytes(data)
    fold(store)
    created = "SELECT dataset, version, created_at FROM versions ORDER BY ALL"
    found = query(store, created)
    (store.root / DATABASE).unlink()
    assert query(store, created).equals(found)


def test_a_part_that_is_back_is_read_though_nothing_else_is_new(store):
    (store.root / DATABASE).unlink(missing_ok=True)
    manifest = load_manifest(store, Ref.parse("documents"))
    path = store.local_path(manifest.rejects[0].key)
    data = path.read_bytes()
    path.unlink()
    assert "objects/" in str(query(store, "FROM problems").to_pylist())
    path.write_bytes(data)
    _begin(store)
    assert query(store, "FROM problems").num_rows == 0
    assert query(store, "SELECT row_id FROM rejects WHERE dataset = 'documents'").num_rows == manifest.rejects[0].rows


def test_the_fold_of_a_dag_brings_no_rows_of_a_bucket_and_a_question_does(s3, tmp_path):
    ref = put(s3, ITEMS, *[[{"item_id": f"i{n}", "value": n}] for n in range(4)])
    elsewhere = S3Store(str(s3), tmp_path / "elsewhere", CACHE_BYTES)
    fold(elsewhere, rows=False)
    here = set(elsewhere._local.keys("objects"))
    assert len(here) <= 1, "the columns of a version are those of its first part"
    assert query(elsewhere, "SELECT sum(value)::INT FROM items").column(0).to_pylist() == [6]
    assert query(elsewhere, "SELECT rows FROM versions").column(0).to_pylist() == [load_manifest(s3, ref).rows]
    path = fold(elsewhere, rows=False)
    assert fold(elsewhere) == path and path.stat().st_ino == fold(elsewhere, rows=False).stat().st_ino


def test_commands_that_show_no_rows_bring_none_of_a_bucket(s3, tmp_path, monkeypatch):
    put(s3, ITEMS, *[[{"item_id": f"i{n}", "value": n}] for n in range(4)])
    elsewhere = S3Store(str(s3), tmp_path / "elsewhere", CACHE_BYTES)
    for command in (inspect, stale):
        monkeypatch.setattr(command, "used_store", lambda: elsewhere)
    inspect.ls_command()
    stale.stale_command()
    assert "foundry_dataset_rows" in exposition(elsewhere)
    assert len(set(elsewhere._local.keys("objects"))) <= 1, "the columns of a version are those of its first part"


def test_of_the_lineage_page_only_questions_about_rows_bring_those_of_a_bucket(s3, tmp_path):
    ref = put(s3, ITEMS, *[[{"item_id": f"i{n}", "value": n}] for n in range(4)])
    elsewhere = S3Store(str(s3), tmp_path / "elsewhere", CACHE_BYTES)
    reader = Reader(elsewhere, fresh_s=600)
    assert [row["ref"] for row in versions(reader)] == [node["ref"] for node in graph(reader)["nodes"]] == [str(ref)]
    assert len(detail(reader, ref)["rows"]) == 1
    assert len(set(elsewhere._local.keys("objects"))) <= 1, "the first part has the columns and the first rows"
    assert reader.ask("SELECT sum(value)::INT AS s FROM items") == [{"s": 6}]


def test_a_version_that_was_made_again_under_its_id_is_read_again(store):
    fold(store)
    (ref,) = (Ref(dataset=d, version=v) for d, v in _latest(store) if d == "passages")
    manifest = load_manifest(store, ref)
    store.replace(manifest_key(ref), manifest.model_copy(update={"rows": 12_345}).model_dump_json().encode())
    (found,) = query(store, "SELECT rows FROM versions WHERE dataset = 'passages' AND is_latest").to_pylist()
    assert found == {"rows": 12_345} and _everything(store) == _anew(store)


def test_a_fold_without_rows_takes_none_from_those_who_read_them(s3):
    put(s3, PAIRS, [{"query_id": "q", "query": "?", "passage_id": "p", "positive": "!"}], dataset="mtp")
    reader, asked = Reader(s3, fresh_s=600), "SELECT query_id FROM all_pairs"
    assert reader.ask(asked) == [{"query_id": "q"}]
    _begin(s3)
    assert query(s3, "FROM steps", rows=False).num_rows == 1
    assert reader.ask(asked) == [{"query_id": "q"}]
    assert Sandbox(reader).ask(asked).rows == [["q"]]


def test_answers_of_a_bucket_are_listed_once_when_something_began_or_ended(s3):
    put(s3, ITEMS, [{"item_id": "i", "value": 1}])
    fold(s3, rows=False)
    listed = []
    s3.bucket.client.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: listed.append(params["Prefix"].split("/")[-2])
    )
    s3.create(answer_key("ab" * 32), b'{"request": {"model": "m"}, "response": {}, "cost_usd": 0.5}')
    fold(s3, rows=False)
    assert listed and facts.RESPONSES not in listed
    _begin(s3)
    assert query(s3, "SELECT cost_usd FROM llm_calls", rows=False).column(0).to_pylist() == [0.5]
    assert listed.count(facts.RESPONSES) == 1


def test_folds_with_and_without_rows_take_over_what_the_other_has_read(s3, monkeypatch):
    put(s3, ITEMS, [{"item_id": "i", "value": 1}])
    read = []
    parsed = facts.event_rows
    noted = lambda store, keys, *more: read.append(len(keys)) or parsed(store, keys, *more)  # noqa: E731
    monkeypatch.setattr(facts, "event_rows", noted)
    for rows in (True, False, True, False):
        _begin(s3)
        path = fold(s3, rows=rows)
    assert read == [1, 1, 1, 1]
    found = query(s3, "SELECT (SELECT count(*) FROM steps) AS runs, (SELECT count(*) FROM items) AS items")
    assert found.to_pylist() == [{"runs": 4, "items": 1}]
    unfold(s3)
    assert not path.exists() and not (s3.folder / DATABASE).exists()
