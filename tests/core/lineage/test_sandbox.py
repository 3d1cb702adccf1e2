"""Visitors' SQL: whatever it tries, it is refused or does nothing, and the process that asked lives on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.lineage.query import connect
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.sandbox import Limits, Sandbox
from pipeline_tasks.core.lineage.sandbox_child import answer

SECRET = "sk-not-for-the-page"
REFUSED = [
    "COPY (SELECT 1) TO '{objects}/x.parquet'",
    "COPY steps TO '/tmp/stolen.csv'",
    "COPY steps FROM '/etc/passwd'",
    "EXPORT DATABASE '{objects}/x'",
    "IMPORT DATABASE '{objects}/x'",
    "ATTACH '{root}/x.duckdb'",
    "ATTACH '{root}/lineage.duckdb' AS writable (READ_WRITE)",
    "ATTACH ':memory:' AS m",
    "DETACH lineage",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL '/tmp/evil.duckdb_extension'",
    "SET memory_limit = '900GB'",
    "SET threads = 64",
    "RESET memory_limit",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET allowed_directories = ['/']",
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "PRAGMA temp_directory = '/tmp'",
    "CALL pragma_version()",
    "CALL enable_logging(storage = 'file', storage_path = '{root}/log')",
    "FROM enable_logging(storage := 'file', storage_path := '{root}/log')",
    "FROM pragma_enable_profiling()",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE MACRO f() AS 1",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE OR REPLACE VIEW steps AS SELECT 1",
    "DROP TABLE steps",
    "ALTER TABLE steps ADD COLUMN x INT",
    "INSERT INTO steps (step) VALUES ('x')",
    "UPDATE versions SET rows = 0",
    "DELETE FROM steps",
    "TRUNCATE steps",
    "MERGE INTO steps USING versions ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "WITH x AS (DELETE FROM steps RETURNING *) FROM x",
    "WITH x AS (COPY (SELECT 1 WHERE false) TO '{object}' (FORMAT csv, HEADER false)) SELECT * FROM x",
    "WITH x AS MATERIALIZED (COPY steps TO '{objects}/x.parquet') FROM x, x AS y",
    "SELECT (WITH x AS (COPY steps TO '{objects}/x.parquet') FROM x)",
    "FROM query('WITH x AS (COPY steps TO ''{objects}/x.csv'') FROM x')",
    "FROM json_execute_serialized_sql(json_serialize_sql('WITH x AS (COPY (SELECT 1) TO ''{object}'') FROM x'))",
    """FROM "QUERY"('FROM json_exec' || 'ute_serialized_sql(json_serialize_sql(''SELECT 1''))')""",
    "BEGIN; DELETE FROM steps; COMMIT",
    "VACUUM",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN ANALYZE COPY steps TO '{objects}/x.csv'",
    "SELECT 1; COPY steps TO '{objects}/x.csv'",
    "SELECT 1;; DROP TABLE steps; --",
    "/* SELECT */ DROP TABLE steps -- SELECT 1",
    "SELECT 1 /* */; /* */ INSTALL httpfs",
    "FROM query('COPY steps TO ''{objects}/x.csv''')",
    "FROM query('SELECT 1; DROP TABLE steps')",
    "FROM query('SELECT 1')",
    "FROM query_table('/etc/passwd')",
    "FROM destroy_external_resource('json_execute_serialized_sql', json_serialize_sql("
    "'WITH x AS (COPY (SELECT 1 WHERE false) TO ''{object}'' (FORMAT csv, HEADER false)) FROM x')::VARCHAR)",
    "FROM (DESCRIBE FROM system.main.\"Destroy_External_Resource\"('query', 'SELECT 1'))",
    "FROM create_external_resource('t', MAP{{'a': 'b'}})",
    "FROM register_external_resource_type('t', kind := 'a', create_function := 'query')",
    "FROM deregister_external_resource('t')",
    "FROM duckdb_external_resources(discover := true)",
    "FROM disable_logging()",
    "FROM truncate_duckdb_logs()",
    "SELECT 1 ORDER BY (SELECT count(*) FROM force_checkpoint())",
    "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT json_serialize_plan('WITH x AS (COPY steps TO ''{objects}/x.csv'') FROM x')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_csv_auto('/etc/passwd', delim = ':')",
    "FROM read_text('/etc/passwd')",
    "FROM read_text('/proc/self/environ')",
    "FROM read_text('{root}/secret.txt')",
    "FROM read_blob('{objects}/../secret.txt')",
    "FROM read_json('/etc/hosts')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM parquet_metadata('/etc/passwd')",
    "FROM '/etc/passwd'",
    'FROM "{root}/secret.txt"',
    "FROM glob('/etc/*')",
    "FROM glob('{objects}/../*')",
    "FROM read_parquet('http://127.0.0.1:1/x.parquet')",
    "FROM read_csv('https://example.org/x.csv')",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "FROM 'hf://datasets/a/b.csv'",
    "SELECT getenv('OPENAI_API_KEY')",
    "SELECT system('id')",
    "FROM python_map('x')",
    "FROM secret_table",
    "FROM sqlite_scan('{root}/secret.txt', 't')",
    "FROM duckdb_secrets()",
    "SELECT error('boom')",
    "LISTEN x",
    "",
    ";",
    "--",
    "not SQL",
    "SELECT '",
    "\x00SELECT 1",
    "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
]
INERT = [
    "FROM duckdb_settings()",
    "FROM duckdb_databases()",
    "FROM duckdb_views()",
    "SELECT current_setting('allowed_directories')",
    "SELECT '<script>alert(1)</script>' AS \"<img src=x>\"",
    "SELECT $$; DROP TABLE steps$$",
    "SELECT 1 -- ; DROP TABLE steps",
]


@pytest.fixture(scope="module")
def con(built):
    (built.root / "secret.txt").write_text(SECRET)
    reader = Reader(built)
    with connect(reader.database(), reader.objects, memory_mib=512, threads=2) as found:
        yield found
    (built.root / "secret.txt").unlink()


@pytest.mark.parametrize("sql", REFUSED, ids=range(len(REFUSED)))
def test_refused_and_nothing_is_left_behind(con, built, sql, monkeypatch):
    secret_table = {"a": [1]}
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    before = _files(built.root)
    place = next(path for path in before if path.suffix == ".parquet")
    with pytest.raises(InputError) as told:
        answer(con, sql.format(objects=built.root / "objects", object=place, root=built.root), Limits(timeout_s=5))
    assert SECRET not in str(told.value)
    assert _files(built.root) == before and not Path("/tmp/stolen.csv").exists()
    assert secret_table and answer(con, "SELECT count(*) FROM steps", Limits()).rows[0][0] > 0


def _files(root: Path) -> dict[Path, int]:
    """All that lies below, with sizes."""
    return {path: path.stat().st_size for path in sorted(root.rglob("*"))}


@pytest.mark.parametrize("sql", INERT)
def test_inert_and_without_secrets(con, sql, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert SECRET not in answer(con, sql, Limits()).model_dump_json()


@pytest.fixture
def box(built) -> Sandbox:
    return Sandbox(Reader(built), Limits(timeout_s=1.5, memory_mb=200, max_rows=5, max_chars=10, max_bytes=2000))


HUNGRY = {
    "endless recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "growing recursion": "WITH RECURSIVE r(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM r) SELECT max(n) FROM r",
    "cross join": "SELECT count(*) FROM range(1000000000000) a, range(1000000) b",
    "sorted cross join": "SELECT * FROM range(100000) a, range(100000) b ORDER BY a.range * b.range DESC",
    "wide text": "SELECT repeat('x', 2000000000)",
    "long list": "SELECT list(range) FROM range(1000000000)",
    "window": "SELECT array_agg(i) OVER () FROM range(10000000) t(i)",
}


@pytest.mark.parametrize("sql", HUNGRY.values(), ids=HUNGRY)
def test_time_and_memory_end_with_the_limit(box, sql):
    with pytest.raises(InputError, match="memory|Memory|took more|was ended"):
        box.ask(sql)


def test_rows_and_texts_are_cut_and_say_so(box):
    assert box.ask("FROM range(5)").rows == [[i] for i in range(5)]
    found = box.ask("SELECT range, repeat('y', 50) AS t FROM range(6)")
    assert (len(found.rows), found.is_cut, found.rows[0]) == (5, True, [0, "y" * 10 + "…"])
    assert [(c.name, c.type) for c in found.columns] == [("range", "BIGINT"), ("t", "VARCHAR")]
    wide = ", ".join(f"'{'z' * 10}' AS c{i}" for i in range(90))
    assert len(box.ask(f"SELECT {wide} FROM range(4)").rows) == 2


NESTED = ", ".join(f"a{i} AS (SELECT {{x: s, y: s}} s FROM a{i - 1})" for i in range(1, 11))


def test_errors_names_and_types_are_cut(built):
    box = Sandbox(Reader(built))
    with pytest.raises(InputError) as told:
        box.ask("SELECT error(repeat('x', 1000000))")
    assert len(str(told.value)) == 2001
    (column,) = box.ask(f"WITH a0 AS (SELECT 1 s), {NESTED} SELECT s AS {'n' * 100_000} FROM a10").columns
    assert (len(column.name), len(column.type)) == (2001, 2001)
    with pytest.raises(InputError, match="columns are too long; select fewer"):
        box.ask(f"SELECT {', '.join(f'1 AS n{i}' + 'n' * 3000 for i in range(2200))}")


def test_values_are_such_that_a_page_can_hold_them(built):
    values = "1, 9007199254740993, 'nan'::DOUBLE, [1, 2], TIMESTAMP '2026-01-02 03:04:05', NULL, true, '\\x00'::BLOB"
    (row,) = Sandbox(Reader(built)).ask(f"SELECT {values}").rows
    assert row == [1, "9007199254740993", "nan", "[1, 2]", "2026-01-02 03:04:05", None, True, "\\x00"]
    assert len(Sandbox(Reader(built)).ask("FROM test_all_types()").rows) == 3


def test_the_process_has_no_environment_and_cannot_reach_it(built, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with pytest.raises(InputError, match="disabled by configuration"):
        Sandbox(Reader(built)).ask("FROM read_text('/proc/self/environ')")


def test_only_so_many_at_a_time(built):
    box = Sandbox(Reader(built), at_once=1, patience_s=0.1)
    assert box._slots.acquire(timeout=1)
    with pytest.raises(TransientError, match="other queries"):
        box.ask("SELECT 1")
    box._slots.release()
    assert box.ask("SELECT 1").rows == [[1]]


def test_a_child_that_dies_is_the_statements_fault_only(built, monkeypatch):
    from pipeline_tasks.core.lineage import sandbox

    monkeypatch.setattr(sandbox, "_CHILD", "no_such_module")
    with pytest.raises(InputError, match="was ended"):
        Sandbox(Reader(built)).ask("SELECT 1")
