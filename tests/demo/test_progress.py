"""Whoever waits for the demo sees how far a task is."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.demo.progress import followed

LINE = (
    "2026-01-01 INFO pipeline_tasks.core.progress: pretrain: 3/34 steps, 0.5 steps/s, 62 s left [foundry_airflow.x] y\n"
)


def test_progress_that_is_added_to_the_log_is_said_and_nothing_else(tmp_path: Path) -> None:
    log, said = tmp_path / "local_run.log", []
    log.write_text(LINE)
    with followed(log, said.append), log.open("a") as file:
        file.write("2026-01-01 INFO pipeline_tasks.core.run: done\n" + LINE.replace("3/34", "9/34"))
    assert said == ["    pretrain: 9/34 steps, 0.5 steps/s, 62 s left"]


def test_a_log_that_comes_later_is_followed_from_its_beginning(tmp_path: Path) -> None:
    log, said = tmp_path / "local_run.log", []
    with followed(log, said.append):
        log.write_text(LINE)
    assert len(said) == 1
