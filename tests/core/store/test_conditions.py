"""A store writes to no server that takes no heed of its conditions, and asks once a machine."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.fake_s3 import fake_servers, heeds_conditions
from tests.seaweed import READER
from tests.stores import put_part

LACKS = "the server lacks conditional writes .If-None-Match, If-Match.; use one that has them"
WRITES = {
    "create": lambda store: store.create("versions/x/1.json", b"x"),
    "swap": lambda store: store.swap("refs/x/latest", b"", b"new"),
    "pinned": lambda store: store.pinned("name", b"{}").__enter__(),
    "alone": lambda store: store.alone("name").__enter__(),
}


@pytest.mark.parametrize("heeds", [(), ("If-None-Match",)])
@pytest.mark.parametrize("write", WRITES)
def test_a_server_that_takes_no_heed_of_a_condition_is_told_before_the_first_write(monkeypatch, tmp_path, heeds, write):
    with fake_servers(monkeypatch) as start:
        bucket, server = start(lambda server, what: what == "PUT" and heeds_conditions(server, heeds))
        store = S3Store(bucket.address, tmp_path, CACHE_BYTES)
        assert store.read("refs/x/latest") == b"" and server.asked["PUT"] == 0, "whoever only reads asks for nothing"
        for _ in range(2):
            with pytest.raises(InputError, match=LACKS):
                WRITES[write](store)
        assert all("/gc/conditions-" in path for path in server.objects) and server.asked["DELETE"] == 2


def test_a_server_that_heeds_them_is_asked_once_a_machine(s3, tmp_path):
    asked: list[str] = []

    def machine(name: str) -> S3Store:
        store = S3Store(str(s3), tmp_path / name, CACHE_BYTES)
        store.bucket.client.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
        return store

    for name, requests in (("one", 5), ("one", 1), ("two", 5)):
        store = machine(name)
        assert store.create(f"versions/x/{name}-{requests}.json", b"x")
        assert len(asked) == requests
        asked.clear()
    assert not list(s3.keys("gc")), "nothing of it stays"


def test_who_may_only_read_does(s3, monkeypatch, tmp_path):
    key = put_part(s3, b"bytes")
    s3.replace("refs/x/latest", b"1")
    for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), READER, strict=True):
        monkeypatch.setenv(name, value)
    reader = S3Store(str(s3), tmp_path / "reader", CACHE_BYTES)
    assert reader.read("refs/x/latest") == b"1" and list(reader.keys("refs")) == ["refs/x/latest"]
    assert reader.local_path(key).read_bytes() == b"bytes"
    with pytest.raises(InputError, match="these keys may not do that"):
        reader.create("versions/x/1.json", b"x")
