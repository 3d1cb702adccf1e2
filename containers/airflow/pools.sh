#!/bin/sh
# Makes the pools that steps wait in, where they are missing: the size that an operator gave one stays.
set -eu
there=$(mktemp)
airflow pools export "$there"
python /opt/init/missing.py /opt/plugins/foundry_airflow/pools.json "$there"
airflow pools import "$there"
rm "$there"
