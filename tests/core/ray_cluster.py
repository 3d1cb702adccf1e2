"""Real Ray clusters, of one node with two processors or of several with one, which end with the tests that use them."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.core.errors import installed_with
from pipeline_tasks.core.settings import settings
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
ROOM = {"object_store_memory": 100 << 20, "memory": 8 << 30}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
CLUSTER = """
import sys, ray
limits = {"num_cpus": 2, "object_store_memory": 100 << 20, "_memory": 8 << 30}
ray.init("local", include_dashboard=False, log_to_driver=False, **limits)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
on_ray = pytest.mark.skipif(not find_spec("ray"), reason=f"Ray is not installed: {installed_with('ray')}")


@contextmanager
def one_node(**variables: str) -> Iterator[str]:
    """The address of a cluster of one node, which ends with its parent."""
    env = os.environ | TOKEN | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"} | variables
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    lines = (line.strip() for line in process.stdout)
    try:
        yield next(line for line in lines if line.rpartition(":")[2].isdigit())
    finally:
        process.stdin.close()
        process.wait()


@contextmanager
def head_with_clients(folder: Path) -> Iterator[str]:
    """A head as ``ray start`` makes it, with the address for machines that are no node; it ends with its parent."""
    port, clients, *others = free_ports(5)
    env = os.environ | TOKEN | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    names = ("node-manager-port", "object-manager-port", "runtime-env-agent-port")
    ports = [f"--{name}={number}" for name, number in zip(names, others, strict=True)]
    start = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--num-cpus=2", f"--port={port}"]
    start += [f"--ray-client-server-port={clients}", "--include-dashboard=false", f"--memory={8 << 30}", *ports]
    start += [f"--object-store-memory={100 << 20}", f"--temp-dir={folder}"]
    until_read = ["sh", "-c", '"$@" & cat >/dev/null; kill $!; wait $!', "sh", *start]
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(until_read, env=env, stdin=subprocess.PIPE, stdout=said) as head,
    ):
        assert head.stdin
        try:
            wait_until_open(clients, head)
            yield f"ray://127.0.0.1:{clients}"
        finally:
            head.stdin.close()


def wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return once somebody listens on a port of this machine."""
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return
        time.sleep(0.2)
    raise AssertionError(f"the head ended with {process.returncode}")


@contextmanager
def several_nodes(n: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that takes no tasks and ``n`` nodes with a processor each, on which steps of this test compute."""
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # which has all their addresses, and is known by the first
    from ray.cluster_utils import Cluster  # which reads them once for all clusters of the process

    found = Cluster(initialize_head=True, head_node_args=ROOM | {"num_cpus": 0, "include_dashboard": False})
    try:
        for place in range(n):
            found.add_node(num_cpus=1, node_ip_address=f"127.0.0.{place + 2}", **ROOM)
        use(found.address, monkeypatch)
        yield found
    finally:
        found.shutdown()
        settings.cache_clear()


def use(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps of this test compute on the cluster there."""
    for name, value in (TOKEN | {"FOUNDRY_ENGINE": "ray", "RAY_ADDRESS": address}).items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()


def use_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps of this test compute in processes again."""
    monkeypatch.setenv("FOUNDRY_ENGINE", "local")
    settings.cache_clear()
