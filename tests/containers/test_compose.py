"""The stack of docker-compose.yml on a real engine: healthy, closed to everyone else, and with secrets of its own."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.containers.conftest import ROOT, docker, named
from tests.containers.stack import Stack, composer, values, written
from tests.ports import free_port

SECRETS = {
    "ADMIN_PASSWORD",
    "POSTGRES_PASSWORD",
    "FERNET_KEY",
    "API_SECRET_KEY",
    "JWT_SECRET",
    "S3_SECRET_KEY",
    "S3_ADMIN_SECRET",
    "RAY_AUTH_TOKEN",
}
DAGS = {"corpus_refresh", "synthesize_pairs", "build_triplets", "train_retriever"}


@pytest.fixture(scope="module")
def page(stack: Stack, env_file: Path) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{values(env_file)['PORT']}", timeout=30) as client:
        yield client


def log_in(page: httpx.Client, user: str, password: str) -> httpx.Response:
    return page.post("/auth/token", json={"username": user, "password": password})


def test_secrets_are_new_each_time_kept_once_made_and_for_the_owner_alone(tmp_path):
    one, two = written(tmp_path / "one"), written(tmp_path / "two")
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    first, second = values(one), values(two)
    assert SECRETS <= set(first)
    assert all(len(first[name]) >= 32 and first[name] != second[name] for name in SECRETS)
    assert len({first[name] for name in SECRETS}) == len(SECRETS)
    before = one.read_text("utf-8")
    assert written(one).read_text("utf-8") == before


def test_an_older_env_file_gets_what_it_lacks_and_the_new_version(tmp_path):
    old = tmp_path / ".env"
    old.write_text("FOUNDRY_VERSION=0.0.1\nADMIN_PASSWORD=chosen-by-hand\n", "utf-8")
    found = values(written(old))
    assert found["ADMIN_PASSWORD"] == "chosen-by-hand"
    assert found["FOUNDRY_VERSION"] != "0.0.1"
    assert SECRETS <= set(found)


@pytest.mark.parametrize("profile", ["", "llm", "llm-cpu", "tools", "ray"])
def test_the_file_is_valid_and_nothing_is_published_beyond_loopback(env_file, profile):
    config = json.loads(Stack("valid", env_file)("--profile", profile, "config", "--format", "json"))
    published = [port for service in config["services"].values() for port in service.get("ports", [])]
    assert published
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}


def test_without_secrets_compose_refuses(tmp_path):
    (tmp_path / ".env").write_text("", "utf-8")
    command = [*composer(), "--env-file", str(tmp_path / ".env"), "config", "-q"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "run make up" in ran.stderr


def test_every_container_is_confined(stack):
    for name in stack("ps", "--all", "--quiet").split():
        found = json.loads(docker("inspect", name))[0]
        host, service = found["HostConfig"], found["Config"]["Labels"]["com.docker.compose.service"]
        assert not host["Privileged"]
        assert host["Memory"] > 0
        assert host["PidsLimit"] > 0
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert service == "postgres" or (host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"])
        sockets = [mount for mount in found["Mounts"] if mount["Destination"].endswith("docker.sock")]
        assert bool(sockets) == (service == "engine"), "what may use the engine's socket is root on its machine"
        assert ("S3_ADMIN_SECRET" in str(found["Config"]["Env"])) == (service in ("init", "seaweedfs"))


def test_only_loopback_is_bound(stack):
    containers = json.loads(docker("inspect", *stack("ps", "--quiet").split()))
    published = [bound for found in containers for bound in found["NetworkSettings"]["Ports"].values() if bound]
    assert len(published) == 2
    assert {one["HostIp"] for bound in published for one in bound} == {"127.0.0.1"}


def test_every_part_is_healthy(page):
    answer = page.get("/api/v2/monitor/health").json()
    assert {name: part["status"] for name, part in answer.items()} == {
        name: "healthy" for name in ("metadatabase", "scheduler", "triggerer", "dag_processor")
    }


def test_only_the_generated_password_is_accepted(page, env_file):
    found = values(env_file)
    for user, password in (("admin", "admin"), ("admin", ""), ("airflow", "airflow"), ("admin", found["JWT_SECRET"])):
        assert log_in(page, user, password).status_code in (400, 401, 422), (user, password)
    assert page.get("/api/v2/dags").status_code == 401
    token = log_in(page, found["ADMIN_USER"], found["ADMIN_PASSWORD"]).json()["access_token"]
    seen = page.get("/api/v2/dags", headers={"Authorization": f"Bearer {token}"}).json()["dags"]
    assert {dag["dag_id"] for dag in seen} >= DAGS


def test_a_viewer_sees_and_does_not_start(stack, page):
    names = ("--firstname", "V", "--lastname", "V", "--email", "v@localhost")
    stack("exec", "-T", "api-server", "airflow", "users", "create", "--role", "Viewer",
          "--username", "viewer", "--password", "only-looking-around", *names)  # fmt: skip
    token = log_in(page, "viewer", "only-looking-around").json()["access_token"]
    header = {"Authorization": f"Bearer {token}"}
    assert page.get("/api/v2/dags", headers=header).status_code == 200
    asked = page.post("/api/v2/dags/corpus_refresh/dagRuns", headers=header, json={"logical_date": None})
    assert asked.status_code == 403


def test_the_store_takes_the_generated_keys_and_no_others(stack, env_file):
    boto3 = pytest.importorskip("boto3")
    from botocore.exceptions import ClientError

    found = values(env_file)
    address = f"http://127.0.0.1:{found['S3_PORT']}"

    def client(secret: str) -> Any:
        return boto3.client("s3", endpoint_url=address, region_name="us-east-1",
                            aws_access_key_id=found["S3_ACCESS_KEY"], aws_secret_access_key=secret)  # fmt: skip

    steps = client(found["S3_SECRET_KEY"])
    steps.put_object(Bucket="foundry", Key="probe", Body=b"x")
    steps.delete_object(Bucket="foundry", Key="probe")
    for more in (lambda: steps.create_bucket(Bucket="more"), lambda: steps.delete_bucket(Bucket="foundry")):
        with pytest.raises(ClientError, match="AccessDenied"):
            more()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client("wrong").list_buckets()
    assert httpx.get(f"{address}/foundry/anything", timeout=30).status_code == 403


ASKED = """
import docker, sys
client = docker.from_env()
for what in (
    lambda: client.containers.run("python:3.11-slim", "id", privileged=True),
    lambda: client.containers.run(sys.argv[1], "id", volumes={"/": {"bind": "/host"}}),
    lambda: client.containers.get(sys.argv[2]),
    lambda: client.containers.list(),
    lambda: client.images.pull("debian"),
):
    try:
        print(what())
    except docker.errors.APIError as error:
        print(error.status_code)
"""


def test_whoever_starts_steps_is_not_root_on_the_machine(stack):
    postgres = stack("ps", "--quiet", "postgres").strip()
    told = stack("exec", "-T", "scheduler", "python", "-c", ASKED, named("cpu"), postgres)
    assert told.split() == ["403"] * 5


STARTED = """
from foundry_airflow.operators import StepOperator
print(StepOperator(task_id="plan_searches", step="plan_searches").execute({"outlet_events": {}}))
"""


def test_a_step_runs_through_the_filter_with_keys_of_no_administrator(stack):
    waiting = ("--env", "AIRFLOW__FOUNDRY__DEFERRABLE=False")
    told = stack("exec", "-T", *waiting, "scheduler", "python", "-c", STARTED)
    assert told.splitlines()[-1].startswith("searches@")
    assert "versions/searches/" in " ".join(one.key for one in stack.bucket.objects.filter(Prefix="store/versions/"))


def test_steps_do_not_reach_the_database(stack):
    told = stack("run", "--rm", "--no-deps", "-T", "--entrypoint", "python", "foundry", "-c",
                 "import socket\ntry: socket.gethostbyname('postgres')\nexcept OSError: print('unknown')")  # fmt: skip
    assert told.strip().endswith("unknown")


def test_make_down_ends_the_steps_of_this_stack_and_no_others(tmp_path):
    path = tmp_path / ".env"
    path.write_text(f"S3_PORT={free_port()}\n", "utf-8")
    own = Stack(f"foundry-test-{uuid.uuid4().hex[:8]}", written(path))
    own("up", "--detach", "--wait", "--no-build", "seaweedfs")
    network, label = f"{own.project}_steps", "retriever-foundry/network"
    sleep = ("--init", "--entrypoint", "sleep", named("seaweedfs"), "600")
    step = docker("run", "--detach", "--network", network, "--label", f"{label}={network}", *sleep).strip()
    other = docker("run", "--detach", "--label", f"{label}={network}-of-another", *sleep).strip()
    try:
        subprocess.run(["make", "down", f"COMPOSE={shlex.join(own.head)}"], cwd=ROOT, check=True)
        left = docker("ps", "--all", "--quiet", "--no-trunc").split()
        assert step not in left and other in left
        assert network not in docker("network", "ls", "--format", "{{.Name}}").split()
    finally:
        docker("rm", "--force", step, other)
        own.down()
