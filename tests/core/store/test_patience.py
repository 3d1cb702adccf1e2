"""An agent on this machine gives the keys to a bucket, as to pods of a cluster, and is away for a while."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.utils import ContainerMetadataFetcher

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.store import patience
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.seaweed import KEY, SECRET

ONCE = ContainerMetadataFetcher.RETRY_ATTEMPTS
"""Answers that botocore waits for before it gives up."""


class Agent(BaseHTTPRequestHandler):
    """Gives keys that are to be renewed for every request, once it has answered 503 ``failing`` times."""

    failing = 0

    def do_GET(self) -> None:
        if Agent.failing:
            Agent.failing -= 1
            self.send_response(503)
            self.end_headers()
            return
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)
        keys = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": "", "Expiration": until.isoformat()}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(keys).encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def store(s3: S3Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """One whose keys the agent gives."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)
    monkeypatch.setattr(patience, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(Agent, "failing", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/keys")
        yield s3
        server.shutdown()


def test_an_agent_that_is_away_when_a_step_begins_or_renews_its_keys_is_asked_again(store):
    for name in ("begins", "renews"):
        Agent.failing = 2 * ONCE
        assert store.create(name, b"x") and Agent.failing == 0


@pytest.mark.parametrize("begun", [False, True])
def test_one_that_stays_away_is_told_and_may_come_back(store, monkeypatch, tmp_path, begun):
    monkeypatch.setattr(patience, "_KEYS_S", 0.0)
    other = S3Store(str(store), tmp_path / "other", CACHE_BYTES)
    assert not begun or other.create("before", b"x")
    Agent.failing = ONCE
    with pytest.raises(TransientError, match="gives this machine its AWS keys fails .*503.*; check the agent"):
        other.create("meanwhile", b"x")
    assert other.create("meanwhile", b"x")
