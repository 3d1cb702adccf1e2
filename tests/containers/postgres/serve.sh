#!/bin/sh
# Makes the cluster and the database on the first start, then serves.
set -eu
data=/var/lib/postgresql/data
if ! [ -f $data/PG_VERSION ]; then
    umask 077
    printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
    initdb -D $data -U "$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256 --auth-local=trust >/dev/null
    rm /tmp/password
    echo "host all all all scram-sha-256" >>$data/pg_hba.conf
    pg_ctl -D $data -w -o "-c listen_addresses=''" start >/dev/null
    createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl -D $data -w stop >/dev/null
fi
exec postgres -D $data -c listen_addresses='*'
