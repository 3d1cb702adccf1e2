from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from pipeline_tasks import datasets
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import fold, query
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import ITEMS
from tests.stores import put

ROOT = Path(__file__).parents[3]
QUESTIONS = [
    *re.findall(r"```sql\n(.*?)```", (ROOT / "docs/lineage.md").read_text("utf-8"), re.DOTALL),
    *re.findall(r'\["[^"]+", `(.*?)`\]', (ROOT / "plugins/lineage_page/static/sql.js").read_text("utf-8"), re.DOTALL),
]
HOSTILE = [
    "COPY (SELECT 1) TO '{objects}/x.parquet'",
    "COPY steps TO '{root}/x.csv'",
    "EXPORT DATABASE '{objects}/x'",
    "ATTACH '{root}/x.duckdb'",
    "ATTACH ':memory:' AS m",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '900GB'",
    "RESET memory_limit",
    "SET enable_external_access = true",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file', storage_path = '{root}/log')",
    "FROM enable_logging(storage := 'file', storage_path := '{root}/log')",
    "INSERT INTO steps (step) VALUES ('x')",
    "WITH x AS (DELETE FROM steps RETURNING *) FROM x",
    "DROP TABLE steps",
    "CREATE TEMP TABLE x AS SELECT 1",
    "EXPLAIN ANALYZE COPY steps TO '{objects}/x.csv'",
    "SELECT 1; COPY steps TO '{objects}/x.csv'",
    "FROM query('COPY steps TO ''{objects}/x.csv''')",
    "FROM destroy_external_resource('json_execute_serialized_sql', "
    "json_serialize_sql('WITH x AS (COPY (SELECT 1) TO ''{objects}/x.csv'') FROM x')::VARCHAR)",
    "FROM query_table('/etc/passwd')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/etc/passwd')",
    "FROM '/etc/passwd'",
    "FROM read_blob('{objects}/../secret.txt')",
    "FROM glob('/etc/*')",
    "FROM read_parquet('http://localhost:1/x.parquet')",
    "FROM secret_table",
    "",
    "not SQL",
]
READS = [
    "SHOW TABLES",
    "DESCRIBE versions",
    "SUMMARIZE versions",
    "VALUES (1)",
    "FROM needs",
    "SELECT unnest([1]), 'query(''x'')'",
    "FROM histogram(versions, rows)",
    "FROM duckdb_functions()",
    "FROM information_schema.tables",
    "FROM (FROM parts PIVOT (count(*) FOR kind IN ('part')))",
    "SELECT n.* FROM versions v, LATERAL (FROM generate_series(1, 2)) n",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_anything_but_reading_the_lineage_is_refused(store, sql):
    secret_table = {"a": [1]}
    (store.root / "secret.txt").write_text("secret")
    query(store, "SELECT 1")
    before = sorted(store.root.rglob("*"))
    with pytest.raises(InputError):
        query(store, sql.format(objects=store.root / "objects", root=store.root))
    assert sorted(store.root.rglob("*")) == before
    assert secret_table


def test_the_parent_of_the_objects_folder_stays_closed(store):
    with pytest.raises(InputError, match="Permission"):
        query(store, f"FROM read_text('{store.root}/objects/../refs/needs/latest')")


@pytest.mark.parametrize("sql", READS)
def test_what_only_reads_is_answered(built, sql):
    assert query(built, sql).num_rows > 0


@pytest.mark.parametrize("name", re.findall(r"CREATE MACRO (\w+)", script("macros.sql")))
def test_every_macro_of_ours_can_be_asked(built, name):
    asked = "" if name == "cost_by_intent" else "'x'"
    assert query(built, f"FROM {name}({asked})").column_names


def test_a_dataset_without_rows_has_their_columns(tmp_path, caplog):
    store = LocalStore(tmp_path)
    for schema in datasets.ALL:
        put(store, schema, dataset=f"no/{schema.name}")
    with duckdb.connect(str(fold(store)), read_only=True) as con:
        for schema in datasets.ALL:
            none, wanted = con.sql(f'FROM "no/{schema.name}"'), con.from_arrow(schema.table())
            assert (none.columns, none.types, none.fetchall()) == (wanted.columns, wanted.types, [])
        assert con.sql("FROM all_pairs WHERE dataset = 'no/pairs'").fetchall() == []
    assert not caplog.records
    put(store, ITEMS)
    assert query(store, "SELECT problem FROM problems")["problem"].to_pylist() == [
        "no view: it has no parts, and no row schema is called 'items'"
    ]


def test_rows_and_time_are_limited(built):
    assert query(built, "FROM range(100)", max_rows=7).num_rows == 7
    with pytest.raises(InputError, match="took more than 0.2 s"):
        query(built, "SELECT count(*) FROM range(1000000000000) a, range(1000000) b", timeout_s=0.2)


def test_values_are_never_part_of_the_sql(built):
    assert query(built, "SELECT ? AS x", ["'; DROP TABLE steps"])["x"].to_pylist() == ["'; DROP TABLE steps"]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_questions_that_docs_and_page_suggest_can_be_asked(built, sql):
    assert query(built, sql).column_names


def test_the_page_counts_a_run_once_however_many_counters_it_has(built):
    (sql,) = [sql for sql in QUESTIONS if sql.startswith("SELECT s.step, count(*) AS runs, round")]
    ran = {
        row["step"]: row["n"] for row in query(built, "SELECT step, count(*) AS n FROM steps GROUP BY step").to_pylist()
    }
    assert {row["step"]: row["runs"] for row in query(built, sql).to_pylist()} == ran


def test_scores_are_suggested_of_each_set_by_itself():
    asked = [sql for sql in QUESTIONS if "FROM evaluations" in sql]
    assert len(asked) == 2 and all("SELECT dataset, system" in sql and "ORDER BY dataset," in sql for sql in asked)


def test_docs_and_page_suggest_questions():
    assert len(QUESTIONS) > 12


def test_a_store_is_asked_for_its_own_rows_whatever_its_folder_is_called(tmp_path):
    names = ["a1", "a[1]", "ab", "a*", "a]", "[!b]", "year=2026", "it's"]
    stores = [LocalStore(tmp_path / name / "store") for name in names]
    for n, store in enumerate(stores):
        put(store, ITEMS, [{"item_id": "i", "value": n}])
    for n, store in enumerate(stores):
        assert query(store, "FROM items").to_pylist() == [{"item_id": "i", "value": n}]
        assert query(store, "FROM problems").num_rows == 0
