"""``containers/airflow/bucket.py``: the bucket is there, is made, or somebody is told what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seaweed import ADMIN, BUCKET, KEY, SECRET, Seaweed, running

FOLDER = Path(__file__).parents[3] / "containers/airflow"
BELOW = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": f"arn:aws:s3:::{BUCKET}",
            "Condition": {"StringLike": {"s3:prefix": ["team/store/*"]}},
        }
    ],
}


class Limited(Seaweed):
    """Somebody sees what lies below a prefix, besides the administrator."""

    who = {
        "policies": [{"name": "below", "content": json.dumps(BELOW)}],
        "identities": [
            ADMIN,
            {
                "name": "limited",
                "policyNames": ["below"],
                "credentials": [{"accessKey": "limited", "secretKey": "limited-secret"}],
            },
        ],
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("limited"), Limited) as found:
        yield found


def made(server, store: str, *, own: bool, keys=("limited", "limited-secret"), admin=("?", "?")):
    """The script, for ``store`` on a server that is the stack's ``own`` or another."""
    variables = {"FOUNDRY_STORE": store, "S3_ADMIN_KEY": admin[0], "S3_ADMIN_SECRET": admin[1]}
    variables |= {"AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]}
    script = "import bucket; bucket.OWN = '127.0.0.1'; bucket.main()" if own else "import bucket; bucket.main()"
    environment = os.environ | server.environment | variables | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)


def test_keys_that_see_the_stores_prefix_alone_will_do(server):
    ran = made(server, f"s3://{BUCKET}/team/store", own=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("store", [f"s3://{BUCKET}/others", f"s3://{BUCKET}", "s3://no-such-bucket/store"])
def test_another_server_is_asked_for_no_bucket_and_somebody_is_told(server, store):
    ran = made(server, store, own=False, admin=(KEY, SECRET))
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"{server.url} has no bucket") and f"below {store}" in ran.stderr
    assert "Traceback" not in ran.stderr and "secret" not in ran.stderr
    assert [one["Name"] for one in server.client().list_buckets()["Buckets"]] == [BUCKET]


def test_another_server_of_keys_that_may_look_says_that_there_is_none(server):
    ran = made(server, "s3://no-such-bucket/store", own=False, keys=(KEY, SECRET))
    assert ran.returncode == 1 and "has no bucket 'no-such-bucket'" in ran.stderr


def test_the_stacks_own_server_gets_the_bucket_once(server):
    for _ in range(2):
        ran = made(server, "s3://stacks/store", own=True, keys=(KEY, SECRET), admin=(KEY, SECRET))
        assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    assert "stacks" in [one["Name"] for one in server.client().list_buckets()["Buckets"]]
