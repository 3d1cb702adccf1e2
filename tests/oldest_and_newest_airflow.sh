#!/usr/bin/env bash
# The lineage page and DAG runs on the oldest and the newest Airflow that pyproject.toml allows, each in an environment of
# its own below AIRFLOW_VENVS. Raise the bounds in pyproject.toml when both pass.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=${UV:-.venv/bin/uv}
venvs=${AIRFLOW_VENVS:-${TMPDIR:-/tmp}/foundry-airflow-venvs}
allowed=$(sed -n 's/^airflow = \["\(apache-airflow>[^"]*\)".*/\1/p' pyproject.toml)
mkdir -p "$venvs"
# What Airflow is made of follows from its version; everything else is as constraints.txt says.
grep -vE '^apache-airflow(-core|-task-sdk|-ctl)?==' constraints.txt >"$venvs/constraints.txt"

for end in lowest-direct highest; do
    export VIRTUAL_ENV=$venvs/$end
    [ -x "$VIRTUAL_ENV/bin/python" ] || "$uv" venv -q --python "${PYTHON:-.venv/bin/python}" "$VIRTUAL_ENV"
    "$uv" pip install -q --resolution "$end" -c "$venvs/constraints.txt" "$allowed"
    found=$("$uv" pip list --format freeze | sed -n 's/^apache-airflow==//p')
    "$uv" pip install -q -c "$venvs/constraints.txt" "apache-airflow==$found" apache-airflow-providers-standard \
        -r pyproject.toml pytest pytest-xdist hypothesis kubernetes docker boto3
    echo "Airflow $found"
    "$VIRTUAL_ENV/bin/python" -m pytest -q -n 0 tests/plugins/test_access.py tests/dags/test_local_run.py \
        tests/dags/test_operators.py tests/dags/test_trigger.py
done
