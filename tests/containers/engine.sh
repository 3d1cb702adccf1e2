#!/usr/bin/env bash
# A Docker engine for the container tests.
#
#   eval "$(tests/containers/engine.sh start)"   use the engine that answers, or start one; sets DOCKER_HOST
#   tests/containers/engine.sh stop              end what `start` started, and nothing else
#   tests/containers/engine.sh run COMMAND…      start, the command, and stop where it was started for it
#
# Where no engine answers, root on Debian gets one of its own (Debian's docker.io, everything under ENGINE_DIR).
# Where python:3.11-slim and postgres:17 cannot be pulled, stand-ins are made from Debian's packages; the first is kept
# in the cache.
set -euo pipefail

ENGINE_DIR=${ENGINE_DIR:-/tmp/foundry-engine}
CACHE=${FOUNDRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/foundry}
BASE=python:3.11-slim
POSTGRES=postgres:17
SOCKET=unix://$ENGINE_DIR/docker.sock
DATA=$ENGINE_DIR/data

say() { echo "engine: $*" >&2; }
answers() { docker version >/dev/null 2>&1; }

install_engine() {
    command -v dockerd >/dev/null && command -v debootstrap >/dev/null && command -v iptables >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null \
        || { say "no Docker engine answers and none can be installed here: start one, or set DOCKER_HOST"; exit 1; }
    say "installing docker.io"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        docker.io iptables debootstrap; } >"$ENGINE_DIR/apt.log" 2>&1 || { tail -20 "$ENGINE_DIR/apt.log" >&2; exit 1; }
}

start_engine() {
    install_engine
    say "starting dockerd, log in $ENGINE_DIR/dockerd.log"
    nohup dockerd --data-root "$DATA" --exec-root "$ENGINE_DIR/exec" --pidfile "$ENGINE_DIR/pid" -H "$SOCKET" \
        >"$ENGINE_DIR/dockerd.log" 2>&1 </dev/null &
    for _ in $(seq 120); do
        answers && return
        kill -0 $! 2>/dev/null || break
        sleep 0.5
    done
    tail -20 "$ENGINE_DIR/dockerd.log" >&2
    exit 1
}

# Like the official image: python and pip under /usr/local. The certificates and pip's settings are this machine's.
make_base() {
    local tarball=$1 root=$ENGINE_DIR/rootfs bundle=/etc/ssl/certs/ca-certificates.crt
    say "making the stand-in for $BASE"
    rm -rf "$root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" \
        >"$ENGINE_DIR/debootstrap.log" 2>&1 || { tail -20 "$ENGINE_DIR/debootstrap.log" >&2; exit 1; }
    chroot "$root" python3 -m venv /usr/local
    ! [ -f $bundle ] || cp $bundle "$root$bundle"
    printf '[global]\ncert = %s\n' $bundle >"$root/etc/pip.conf"
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/usr/share/{doc,man,locale}
    tar --numeric-owner -C "$root" -cf "$tarball.part" .
    mv "$tarball.part" "$tarball"
    rm -rf "$root"
}

is_here() { docker image inspect "$1" >/dev/null 2>&1 || timeout 60 docker pull -q "$1" >/dev/null 2>&1; }

provide_postgres() {
    ! is_here $POSTGRES || return 0
    docker build -q --network host -t $POSTGRES "$(dirname "$0")/postgres" >/dev/null 2>"$ENGINE_DIR/postgres.log" \
        || { tail -20 "$ENGINE_DIR/postgres.log" >&2; exit 1; }
    say "$POSTGRES is a stand-in made of Debian's packages"
}

provide_base() {
    ! is_here $BASE || return 0
    local tarball=$CACHE/containers/python-3.11-slim.tar
    mkdir -p "${tarball%/*}"
    [ -f "$tarball" ] || make_base "$tarball"
    docker import -c 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8' \
        -c 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' -c 'CMD ["python3"]' "$tarball" $BASE >/dev/null
    say "$BASE is a stand-in made of Debian's packages"
}

# It builds with BuildKit as it is; newer ones need a plugin for that and are several times slower without.
prefer_debians_client() {
    mkdir -p "$ENGINE_DIR/bin"
    ln -sf /usr/bin/docker "$ENGINE_DIR/bin/docker"
    export PATH=$ENGINE_DIR/bin:$PATH DOCKER_BUILDKIT=1
}

start() {
    mkdir -p "$ENGINE_DIR"
    if answers; then say "using the engine at ${DOCKER_HOST:-its default socket}"
    else
        export DOCKER_HOST=$SOCKET
        answers || start_engine
        prefer_debians_client
    fi
    provide_base
    provide_postgres
    ! [ -n "${DOCKER_HOST:-}" ] || echo "export DOCKER_HOST=$DOCKER_HOST"
    ! [ -n "${DOCKER_BUILDKIT:-}" ] || echo "export DOCKER_BUILDKIT=1 PATH=$ENGINE_DIR/bin:\$PATH"
}

stop() {
    [ -f "$ENGINE_DIR/pid" ] || { say "none of ours is running"; return; }
    local pid
    pid=$(<"$ENGINE_DIR/pid")
    kill "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    say "stopped $pid"
}

run() {
    answers || trap stop EXIT
    start >/dev/null
    "$@"
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    run) shift; run "$@" ;;
    *) say "usage: $0 start|stop|run COMMAND…"; exit 2 ;;
esac
