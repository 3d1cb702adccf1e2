"""``airflow`` with its clock ahead: ``python -m tests.e2e.moved_clock SECONDS ARGUMENTS…``."""

import sys
from datetime import UTC, datetime, timedelta

import time_machine

if __name__ == "__main__":
    ahead = timedelta(seconds=float(sys.argv[1]))
    sys.argv = ["airflow", *sys.argv[2:]]
    if ahead:
        time_machine.travel(datetime.now(UTC) + ahead, tick=True).start()
    from airflow.__main__ import main

    main()
