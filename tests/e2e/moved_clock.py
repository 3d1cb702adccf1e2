"""``airflow`` with its clock ahead, SQLite's too: ``python -m tests.e2e.moved_clock SECONDS ARGUMENTS…``."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine
from sqlalchemy import event
from sqlalchemy.pool import Pool


def now() -> str:
    """The moment as SQLite's CURRENT_TIMESTAMP, which would ask the machine, not Python."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"


@event.listens_for(Pool, "connect")
def move_sqlite(connection: Any, _: Any) -> None:
    """Give every database connection of this process the moved clock."""
    connection.create_function("current_timestamp", 0, now)


if __name__ == "__main__":
    ahead = timedelta(seconds=float(sys.argv[1]))
    sys.argv = ["airflow", *sys.argv[2:]]
    time_machine.travel(datetime.now(UTC) + ahead, tick=True).start()
    if sys.argv[1] == "scheduler":
        from foundry_airflow.scheduler import main

        sys.argv = sys.argv[1:]
    else:
        from airflow.__main__ import main

        if sys.argv[1] == "dag-processor":  # its children read the DAG files; what these import is imported once
            import foundry_airflow.steps  # noqa: F401
    main()
