"""``airflow scheduler`` that has imported what its tasks need, and whose steps' processes start at once.

``python -m foundry_airflow.scheduler ARGUMENTS…`` stands in for ``airflow scheduler ARGUMENTS…`` where tasks are forks
of the scheduler, as the LocalExecutor's are. Start it again after code in ``pipeline_tasks`` or ``plugins`` changed.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point."""
    import foundry_airflow.steps  # noqa: F401
    from foundry_airflow import process
    from foundry_airflow.internals import command_line
    from foundry_airflow.starts import forks

    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    with forks(process.COMMAND):
        command_line()


if __name__ == "__main__":
    main()
