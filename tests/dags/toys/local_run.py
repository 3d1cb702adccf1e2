"""``foundry_airflow.local_run`` over the toy steps."""

import sys

from foundry_airflow import calls, local_run, process

from toys import cli

process.COMMAND = (sys.executable, "-m", cli.__name__)
calls.COMMAND = ("python3", "-m", cli.__name__)

if __name__ == "__main__":
    sys.exit(local_run.main())
