from __future__ import annotations

import json
import re
import threading
import uuid
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import toy

from pipeline_tasks import datasets
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.lineage import DATABASE, fold, query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import write_file
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit


def ask(store: LocalStore, sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in query(store, sql).to_pylist()]


def test_an_empty_store_folds_and_every_macro_answers(tmp_path):
    store = LocalStore(tmp_path)
    assert ask(store, "SELECT count(*) FROM steps") == [(0,)]
    assert ask(store, "FROM trace_query('x')") == ask(store, "FROM trace_passage('x')") == []
    assert ask(store, "SELECT n_responses FROM cost_of('x')") == []


def test_steps_say_what_each_run_came_to(built):
    rows = dict(ask(built, "SELECT step, status FROM steps WHERE step IN ('toy_label', 'toy_broken')"))
    assert rows == {"toy_label": "complete", "toy_broken": "failed"}
    assert ask(built, "SELECT error, version FROM steps WHERE status = 'failed'") == [
        ("ValueError: no such luck", None)
    ]
    assert ask(built, "SELECT value FROM counters WHERE step = 'toy_documents' AND name = 'pages'") == [(3.0,)]


def test_a_run_that_never_ended_is_unfinished(store):
    EventLog(store, "toy_killed", "1").emit("START", inputs={}, output=None, facts={"dataset": "urls"})
    assert ask(store, "SELECT status, ended_at FROM steps WHERE step = 'toy_killed'") == [("unfinished", None)]


def test_created_at_is_the_building_run_and_not_a_reuse(store):
    before = ask(store, "SELECT created_at FROM versions WHERE dataset = 'labelled'")
    assert toy.make(store, toy.toy_label).reused
    assert ask(store, "SELECT created_at FROM versions WHERE dataset = 'labelled'") == before
    assert ask(store, "SELECT reused FROM steps WHERE step = 'toy_label' ORDER BY started_at") == [(False,), (True,)]


def test_views_hold_exactly_the_live_rows_of_the_latest_version(store):
    toy.corpus(store, "a", "twin", "bad", "e", "f", "g")
    toy.corpus(store, "a", "twin", "bad", "f", "h")
    for dataset in ("urls", "documents", "distinct_documents", "passages", "mtp", "rankings/beta", "mtt/0.75"):
        version = Version.open(store, Ref.parse(dataset))
        key = version.manifest.key
        wanted = sorted(version.table([key])[key].to_pylist())
        assert [k for (k,) in ask(store, f'SELECT {key} FROM "{dataset}" ORDER BY 1')] == wanted, dataset
    assert ask(store, "SELECT doc_id FROM passages ORDER BY 1") == [("d-a",), ("d-f",), ("d-h",)]


def test_a_model_has_files_and_no_view(built):
    names = ask(built, "SELECT name FROM parts WHERE dataset = 'model/33m/finetune' ORDER BY position")
    assert names == [("1_Pooling/config.json",), ("config.json",)]
    assert ask(built, "SELECT count(*) FROM duckdb_views() WHERE view_name = 'model/33m/finetune'") == [(0,)]


def test_ancestors_reach_all_the_way_down(built):
    sql = "SELECT ancestor_dataset, depth FROM ancestors WHERE descendant_dataset = 'eval/dev' ORDER BY depth"
    found = ask(built, sql)
    assert found[0] == ("model/33m/finetune", 1)
    assert found[-1] == ("urls", 9)
    below = ask(built, "SELECT count(*) FROM descendants WHERE ancestor_dataset = 'urls' AND depth = 9")
    assert below == [(1,)]


def test_cost_counts_each_answer_once(built):
    columns = "n_responses, n_unknown, prompt_tokens, completion_tokens, round(cost_usd, 6)"
    assert ask(built, f"SELECT {columns} FROM cost_of('eval/dev')") == [(2, 0, 1500, 150, 0.003)]
    assert ask(built, f"SELECT {columns} FROM cost_of('needs')") == [(1, 0, 1000, 100, 0.001)]
    version = ask(built, "SELECT version FROM versions WHERE dataset = 'mtp'")[0][0]
    for name in (version, f"mtp@{version}", "mtp", "mtp@latest"):
        assert ask(built, f"SELECT n_responses FROM cost_of('{name}')") == [(2,)]
    for name in (f"needs@{version}", "nothing", "mtp@none"):
        assert ask(built, f"SELECT n_responses FROM cost_of('{name}')") == []


def test_rejects_evaluations_and_params(built):
    found = ask(built, "SELECT dataset, row_id, reason FROM rejects ORDER BY dataset")
    assert found == [
        ("distinct_documents", "d-twin", "near_duplicate"),
        ("documents", "bad", "encrypted"),
        ("labelled", "q-n-p-d-c", "no_agreement"),
    ]
    scores = ask(built, "SELECT dataset, metric, intent, score, n_queries FROM evaluations ORDER BY intent")
    assert scores == [
        ("eval/dev", "ndcg@10", "average", 0.7, 3),
        ("eval/dev", "ndcg@10", "nli", 0.9, 1),
        ("eval/dev", "ndcg@10", "qa", 0.5, 2),
    ]
    assert ask(built, "SELECT value FROM params WHERE dataset = 'mtt/0.65' AND name = 'alpha'") == [("0.65",)]


def test_trace_query_of_an_accepted_and_of_a_rejected_query(built):
    (kept,) = query(built, "FROM trace_query('q-n-p-d-a')").to_pylist()
    assert (kept["url"], kept["title"], kept["page"]) == ("https://example.org/a.pdf", "Title a", 3)
    assert (kept["need_prompt_tokens"], kept["pair_prompt_tokens"], kept["pair_model"]) == (1000, 500, "small-llm")
    assert [vote["model"] for vote in kept["votes"]] == list(toy.MODELS)
    assert [(b["dataset"], b["negative_ids"]) for b in kept["builds"]] == [
        ("mtt/0.65", ["p-other"]),
        ("mtt/0.75", ["p-other"]),
    ]
    (refused,) = query(built, "FROM trace_query('q-n-p-d-c')").to_pylist()
    assert (refused["is_labelled"], refused["builds"]) == (False, None)
    assert [r["reason"] for r in refused["rejections"]] == ["no_agreement"]
    assert [(r["model"], r["positive_rank"]) for r in refused["rankings"]] == [(m, 2) for m in toy.MODELS]


def test_trace_passage_knows_pdf_passages_and_written_ones(built):
    (row,) = query(built, "FROM trace_passage('p-d-a')").to_pylist()
    assert (row["source"], row["url"], row["page"]) == ("pdf", "https://example.org/a.pdf", 3)
    assert [q["query_id"] for q in row["queries"]] == ["q-n-p-d-a"]
    assert [p["dataset"] for p in row["positive_of"]] == ["mtt/0.65", "mtt/0.75"]
    (written,) = query(built, "FROM trace_passage('w-n-p-d-a')").to_pylist()
    assert (written["source"], written["text"], written["doc_id"]) == ("llm", "an answer", "d-a")


def test_shapes_agree_with_the_row_schemas(built):
    real = {schema.name: schema.arrow for schema in datasets.ALL}
    with duckdb.connect(str(fold(built)), read_only=True) as con:
        tables = con.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shape'").fetchall()
        assert tables
        for (name,) in tables:
            shape = con.sql(f"SELECT * EXCLUDE (dataset) FROM shape.{name}").to_arrow_table().schema
            for field in shape:
                assert _plain(real[name].field(field.name).type) == _plain(field.type), f"{name}.{field.name}"


def test_no_dataset_is_called_as_a_table_of_the_lineage_which_would_break_the_fold():
    made = "\n".join((Path(__file__).parents[3] / "sql" / name).read_text() for name in ("tables.sql", "views.sql"))
    own = set(re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", made))
    assert {"events", "steps", "evaluations"} <= own
    assert not own & {get_step(name).dataset for name in step_names()}


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in kind])
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def test_nothing_new_is_not_folded_again_and_anything_new_is(store):
    path = fold(store)
    first = path.stat().st_ino
    fold(store)
    assert path.stat().st_ino == first
    EventLog(store, "toy_more", "1").emit("START", inputs={}, output=None, facts={})
    fold(store)
    assert path.stat().st_ino != first


def test_what_a_fold_takes_over_equals_a_fold_from_nothing(store):
    fold(store)
    toy.corpus(store, "a", "z")
    toy.make(store, toy.toy_needs)
    carried = {name: ask(store, f"FROM {name} ORDER BY ALL") for name in ("llm_calls", "part_responses", "parts")}
    (store.root / DATABASE).unlink()
    assert {name: ask(store, f"FROM {name} ORDER BY ALL") for name in carried} == carried


def test_a_database_that_is_dropped_loses_nothing(store):
    def everything():
        with duckdb.connect(str(fold(store)), read_only=True) as con:
            found = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY 1"
            names = {name for (name,) in con.sql(found).fetchall()} - {"fold_state"}
            views = "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
            names |= {name for (name,) in con.sql(views).fetchall()}
            return {name: con.sql(f'FROM "{name}" ORDER BY ALL').fetchall() for name in names}

    for more in ("a", "z"), ("a", "twin", "y"):
        fold(store)
        toy.corpus(store, *more)
    before = everything()
    assert all(before[name] for name in ("steps", "versions", "parts", "llm_calls", "part_responses", "passages"))
    (store.root / DATABASE).unlink()
    assert everything() == before


def test_bad_files_are_reported_and_do_no_harm(store):
    wanted = ask(store, "SELECT count(*) FROM versions")
    (some,) = list((store.root / "lineage/events").glob("*-complete.json"))[:1]
    half = some.read_bytes()[:100]
    bad = {
        "lineage/events/0-half.json": half,
        "lineage/events/1-list.json": b"[]",
        "lineage/events/2-bytes.json": b"\xff\x00",
        "lineage/events/3-kind.json": some.read_bytes().replace(b"COMPLETE", b"WHATEVER"),
        "versions/labelled/0000000000000000.json": b"{}",
        "versions/needs/1111111111111111.json": next((store.root / "versions/mtp").glob("*.json")).read_bytes(),
        "responses/aa/aa.json": b"{",
    }
    for key, data in bad.items():
        store.create(key, data)
    assert sorted(key for (key,) in ask(store, "SELECT key FROM problems")) == sorted(bad)
    assert ask(store, "SELECT count(*) FROM versions") == wanted
    (store.root / DATABASE).write_bytes(b"not a database")
    assert ask(store, "SELECT count(*) FROM versions") == wanted


def test_a_file_that_is_called_a_training_curve_and_is_none_is_reported(store):
    with store.temporary() as path:
        path.write_bytes(b"step,loss")
        part = write_file(store, path, "training_curve.parquet")
    with store.temporary() as path:
        pq.write_table(pa.table({"step": [1]}), path)
        other = write_file(store, path, "training_curve.parquet")
    manifest = Version.open(store, Ref.parse("model/33m/finetune")).manifest
    commit(store, manifest.model_copy(update={"id": "0" * 16, "parts": [part, other]}))
    assert ask(store, "SELECT count(*) FROM training_curves") == [(0,)]
    assert sorted(ask(store, "SELECT key FROM problems")) == sorted([(part.key,), (other.key,)])


def test_a_missing_part_costs_its_own_view_only(store):
    (sha,) = ask(store, "SELECT sha256 FROM parts WHERE dataset = 'needs' AND kind = 'part'")[0]
    (store.root / f"objects/{sha[:2]}/{sha}.parquet").unlink()
    (store.root / DATABASE).unlink()
    assert [key.split("@")[0] for (key,) in ask(store, "SELECT key FROM problems")].count("needs") == 1
    assert ask(store, "SELECT count(*) FROM mtp") == [(2,)]


def test_a_reader_keeps_its_database_while_a_new_one_takes_its_place(store):
    with duckdb.connect(str(fold(store)), read_only=True) as con:
        before = con.sql("SELECT count(*) FROM steps").fetchall()
        EventLog(store, "toy_more", "1").emit("START", inputs={}, output=None, facts={})
        fold(store)
        assert con.sql("SELECT count(*) FROM steps").fetchall() == before
        assert ask(store, "SELECT count(*) FROM steps") == [(before[0][0] + 1,)]


def test_where_nothing_is_new_nothing_is_written(tmp_path):
    store = LocalStore(tmp_path)
    for _ in range(1000):
        _write_event(store.root)
    assert ask(store, "SELECT count(*) FROM steps") == [(1000,)]
    before = (store.root / DATABASE).stat()
    assert fold(store).stat() == before


def _write_event(root: Path) -> None:
    run = {"runId": str(uuid.uuid4()), "facets": {"foundry": {"codeVersion": "1", "dataset": "urls"}}}
    event = {"eventType": "START", "eventTime": datetime.now(UTC).isoformat(), "run": run, "job": {"name": "s"}}
    folder = root / "lineage/events"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{run['runId']}.json").write_text(json.dumps(event))


def _write_many(root: Path, n: int) -> None:
    store = LocalStore(root)
    for _ in range(n):
        log = EventLog(store, "busy", "1")
        log.emit("START", inputs={}, output=None, facts={"dataset": "urls"})
        log.emit("COMPLETE", inputs={}, output=None, facts={"dataset": "urls", "counters": {"rows_in": 1}})


def _ask_until(root: Path, wanted: int) -> None:
    store, seen = LocalStore(root), 0
    while seen < wanted:
        ((now,),) = ask(store, "SELECT count(*) FROM steps WHERE status = 'complete'")
        if now < seen:
            raise AssertionError(f"the lineage went back from {seen} to {now} runs")
        seen = now


def test_eight_writers_two_readers_and_a_thread_never_conflict(tmp_path):
    context = get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, 25)) for _ in range(8)]
    readers = [context.Process(target=_ask_until, args=(tmp_path, 200)) for _ in range(2)]
    thread = threading.Thread(target=_ask_until, args=(tmp_path, 200), daemon=True)
    for one in (*readers, *writers, thread):
        one.start()
    for one in (*writers, *readers, thread):
        one.join(120)
    assert [process.exitcode for process in (*writers, *readers)] == [0] * 10
    assert not thread.is_alive()
    assert ask(LocalStore(tmp_path), "SELECT sum(value)::INT FROM counters") == [(200,)]


@pytest.mark.parametrize("name", ["tables.sql", "shapes.sql", "views.sql", "macros.sql"])
def test_the_sql_stands_beside_the_package(name):
    assert (Path(__file__).parents[3] / "sql" / name).is_file()
