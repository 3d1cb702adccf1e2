#!/bin/sh
# Brings a fresh or an older installation to what this image needs; safe to run again.
set -eu
python /opt/init/bucket.py
airflow db migrate
sh /opt/init/pools.sh
# With "=": one generated password in 64 begins with a dash.
airflow users create --role=Admin --username="$ADMIN_USER" --password="$ADMIN_PASSWORD" \
    --firstname=Foundry --lastname=Admin --email="$ADMIN_USER@localhost"
airflow users reset-password --username="$ADMIN_USER" --password="$ADMIN_PASSWORD"
