"""What the demo tells Airflow."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine

from pipeline_tasks.demo.airflow import database


def test_a_writer_waits_for_another_for_a_minute_and_the_file_is_airflows_own(tmp_path: Path) -> None:
    (url,) = database(tmp_path).values()
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000
    engine.dispose()
    assert [file.name for file in tmp_path.iterdir()] == ["airflow.db"]
