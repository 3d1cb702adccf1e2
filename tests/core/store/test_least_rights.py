"""The steps' keys of ``containers/seaweedfs/serve.sh``: enough for a store, and for nothing else."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from string import Template

import pytest
from botocore.exceptions import ClientError

from pipeline_tasks.core.store import bucket as bucket_module
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.seaweed import BUCKET, KEY, SECRET, running
from tests.stores import put_part

ROOT = Path(__file__).parents[3]
STEPS = {"S3_ACCESS_KEY": "steps-key", "S3_SECRET_KEY": "steps-secret"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """SeaweedFS with the identities that the stack's has."""
    text = (ROOT / "containers/seaweedfs/serve.sh").read_text("utf-8").split("<<KEYS\n")[1].split("KEYS\n")[0]
    filled = Template(text).substitute(STEPS | {"S3_BUCKET": BUCKET, "S3_ADMIN_KEY": KEY, "S3_ADMIN_SECRET": SECRET})
    with running(tmp_path_factory.mktemp("least"), json.loads(filled)) as found:
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
    ):
        with pytest.raises(ClientError, match=re.compile("AccessDenied|Forbidden")):
            refused()
