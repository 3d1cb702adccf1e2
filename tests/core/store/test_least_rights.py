"""The steps' keys of ``containers/seaweedfs/serve.sh``: enough for a store, and for nothing else."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from pipeline_tasks.core.store import bucket as bucket_module
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.seaweed import BUCKET, KEY, SECRET, Seaweed, binary, running
from tests.stores import put_part

ROOT = Path(__file__).parents[3]
EXPIRY = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
EVERY_PAGE = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}
STEPS = {"S3_ACCESS_KEY": "steps-key", "S3_SECRET_KEY": "steps-secret"}


OUTSIDE = "127.0.0.2"
"""Stands for the network that the container is in: what is bound to 127.0.0.1 is the container's own."""
PUT_IDENTITY = "/messaging_pb.SeaweedS3IamCache/PutIdentity"


class Stacks(Seaweed):
    """The stack's own server: ``serve.sh`` as it is, with other ports and another folder for ``weed``."""

    def command(self) -> list[str]:
        """A ``weed`` before the real one in PATH: of an option that is there twice the last one holds."""
        own = shlex.join([*self.places(), f"-s3.ip.bind={OUTSIDE}"])
        (self.folder / "bin").mkdir(exist_ok=True)
        script = self.folder / "bin/weed"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(binary()))} "$@" {own}\n', "utf-8")
        script.chmod(0o755)
        return ["sh", str(ROOT / "containers/seaweedfs/serve.sh")]

    def variables(self) -> dict[str, str]:
        """Those of docker-compose.yml."""
        path = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(self.folder)}
        return path | STEPS | {"FOUNDRY_STORE": f"s3://{BUCKET}/store", "S3_ADMIN_KEY": KEY, "S3_ADMIN_SECRET": SECRET}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command, which the image has")
    with running(tmp_path_factory.mktemp("least"), Stacks) as found:
        yield found


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    keys = {"AWS_ACCESS_KEY_ID": STEPS["S3_ACCESS_KEY"], "AWS_SECRET_ACCESS_KEY": STEPS["S3_SECRET_KEY"]}
    for name, value in (server.environment | keys).items():
        monkeypatch.setenv(name, value)
    return S3Store(server.address(), tmp_path / "caches", CACHE_BYTES)


def test_a_store_needs_no_rights_of_an_administrator(store, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket_module, "MULTIPART_BYTES", 1 << 20)
    monkeypatch.setattr(bucket_module, "CHUNK_BYTES", 5 << 20)
    data = os.urandom(6 << 20)
    key = put_part(store, data)
    assert S3Store(str(store), tmp_path / "other", CACHE_BYTES).local_path(key).read_bytes() == data
    with store.alone("work"):
        assert store.create("refs/x/latest", b"1") and not store.create("refs/x/latest", b"2")
        store.replace("refs/x/latest", b"3")
    store.bucket.touch("refs/x/latest")
    assert [entry.key for entry in store.entries("refs")] == ["refs/x/latest"]
    store.delete_all([key, "refs/x/latest"])
    assert not store.exists(key)


def test_the_server_gets_no_variable_that_makes_an_administrator_of_the_steps():
    """SeaweedFS takes AWS_ACCESS_KEY_ID of its own environment for an administrator's, beside what its file says."""
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert [name for name in services["seaweedfs"]["environment"] if name.startswith("AWS_")] == []


def field(number: int, content: bytes) -> bytes:
    """One of a protocol buffer."""
    return bytes([number << 3 | 2, len(content)]) + content


def test_nobody_becomes_an_administrator_without_a_key(server):
    grpc = pytest.importorskip("grpc")
    beyond = {port for address, port in server.listening() if address != "127.0.0.1"}
    assert beyond == {server.ports["s3.port"], server.ports["s3.port.grpc"]}
    asked = f"{OUTSIDE}:{server.ports['s3.port.grpc']}"
    (found,) = server.folder.glob("tmp.*/grpc.crt")
    named = (("grpc.ssl_target_name_override", "seaweedfs"),)
    trusting = grpc.ssl_channel_credentials(found.read_bytes())
    credentials = field(1, b"theirs") + field(2, b"their-secret")
    identity = field(1, b"theirs") + field(2, credentials) + field(3, b"Admin")
    for channel in (grpc.insecure_channel(asked), grpc.secure_channel(asked, trusting, named)):
        with channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(PUT_IDENTITY)(field(1, identity), timeout=20)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, refused.value
    theirs = {"aws_access_key_id": "theirs", "aws_secret_access_key": "their-secret"}
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        server.client(**theirs).list_buckets()
    assert server.client().list_buckets()["Buckets"], "it still answers"


def test_the_steps_keys_make_remove_and_see_no_other_bucket(server):
    admin = server.client()
    admin.create_bucket(Bucket="others")
    admin.put_object(Bucket="others", Key="x", Body=b"x")
    keys = {"aws_access_key_id": "steps-key", "aws_secret_access_key": "steps-secret"}
    steps = server.client(**keys)
    for refused in (
        lambda: steps.create_bucket(Bucket="more"),
        lambda: steps.delete_bucket(Bucket=BUCKET),
        lambda: steps.get_object(Bucket="others", Key="x"),
        lambda: steps.put_object(Bucket="others", Key="x", Body=b"y"),
        lambda: steps.list_objects_v2(Bucket="others"),
        lambda: steps.put_bucket_policy(Bucket=BUCKET, Policy="{}"),
        lambda: steps.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [EXPIRY]}),
        lambda: steps.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"}),
        lambda: steps.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [EVERY_PAGE]}),
    ):
        with pytest.raises(ClientError, match=re.compile("AccessDenied|Forbidden")):
            refused()
