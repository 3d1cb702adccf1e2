"""What is special about a bucket: its errors, its cache, its leases, and servers that die."""

from __future__ import annotations

import datetime
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import botocore.auth
import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.store import bucket as bucket_module
from pipeline_tasks.core.store import open_store, patience
from pipeline_tasks.core.store.cache import Cache
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.disks import small_disk
from tests.ports import free_port
from tests.seaweed import BUCKET, running
from tests.stores import put_part

LEASE_S = 2.0


def again(store: S3Store, folder: Path, lease_s: float = LEASE_S) -> S3Store:
    """The same store as another machine sees it, whose caches are in ``folder``."""
    return S3Store(str(store), folder, CACHE_BYTES, lease_s)


def raw(store: S3Store, key: str) -> dict[str, str]:
    return {"Bucket": BUCKET, "Key": store.bucket.prefix + key}


def test_the_settings_lead_to_it(s3):
    assert str(open_store()) == str(s3) and isinstance(open_store(), S3Store)


@pytest.mark.parametrize("address", ["s3://", "s3://A/b", "s3://bu cket/x", "s3:///x", "s3://bucket/../x", "s3://b/x"])
def test_an_address_that_names_no_bucket_is_refused(address):
    with pytest.raises(InputError, match="s3://bucket or s3://bucket/prefix|leaves the store"):
        open_store(address)


def test_a_wrong_secret_is_told(s3, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-one")
    for use in (lambda s: s.read("refs/x"), lambda s: s.create("a", b"x"), lambda s: list(s.keys("refs"))):
        with pytest.raises(InputError, match="secret key is wrong; check AWS_ACCESS_KEY_ID") as told:
            use(again(s3, tmp_path))
        assert "wrong-one" not in str(told.value)
    with pytest.raises(InputError, match="refused; check AWS_ACCESS_KEY_ID"):
        again(s3, tmp_path).exists("refs/x")


def test_an_unknown_key_is_told(s3, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(InputError, match="does not know the access key"):
        again(s3, tmp_path).read("refs/x")


def test_missing_keys_are_told(s3, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InputError, match="no complete AWS credentials were found; set AWS_ACCESS_KEY_ID"):
        again(s3, tmp_path).read("refs/x")


def test_a_missing_bucket_is_told(s3, tmp_path):
    nowhere = S3Store("s3://no-such-bucket/x", tmp_path, CACHE_BYTES)
    for use in (lambda s: s.read("refs/x"), lambda s: s.create("a", b"x"), lambda s: s.replace("a", b"x")):
        with pytest.raises(InputError, match="there is no such bucket; create it"):
            use(nowhere)


def test_a_wrong_clock_is_told(s3, monkeypatch, tmp_path):
    real = botocore.auth.get_current_datetime

    def late(*args, **kwargs):
        return real(*args, **kwargs) + datetime.timedelta(hours=1)

    monkeypatch.setattr(botocore.auth, "get_current_datetime", late)
    with pytest.raises(InputError, match="clock differs from the server's by minutes; set the clock"):
        again(s3, tmp_path).create("a", b"x")
    monkeypatch.undo()


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_server_out_of_reach_is_told_and_may_come_back(s3, monkeypatch, tmp_path, host):
    monkeypatch.setattr(patience, "ATTEMPTS", 3)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{free_port()}")
    with pytest.raises(TransientError, match="cannot be reached .*; check AWS_ENDPOINT_URL_S3"):
        again(s3, tmp_path).read("refs/x")


class Busy(BaseHTTPRequestHandler):
    """Asks everybody to slow down."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_busy_server_is_asked_again_before_it_is_told(s3, monkeypatch, tmp_path):
    monkeypatch.setattr(patience, "ATTEMPTS", 3)
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(TransientError, match="busy or failed .SlowDown."):
            again(s3, tmp_path).read("refs/x")
        server.shutdown()
    assert Busy.asked == 3


def test_an_endpoint_that_is_none_is_told(s3, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "not an address")
    with pytest.raises(InputError, match="mend AWS_ENDPOINT_URL_S3"):
        again(s3, tmp_path).read("refs/x")


def test_a_corrupted_object_is_told_and_never_kept(s3, seaweed, tmp_path):
    key = put_part(s3, b"what was written" * 100)
    seaweed.client().put_object(Body=b"what somebody else wrote", **raw(s3, key))
    reader = again(s3, tmp_path / "reader")
    with pytest.raises(InputError, match=f"{key} in .* is corrupted.*foundry check"):
        reader.local_path(key)
    assert not (reader.folder / key).exists() and not list(reader.folder.glob("tmp/*"))
    reader.delete(key)
    assert put_part(reader, b"what was written" * 100) == key
    assert again(s3, tmp_path / "third").local_path(key).read_bytes() == b"what was written" * 100


def test_bytes_that_are_not_what_the_key_says_are_refused_by_the_server(s3):
    with s3.temporary() as path, pytest.raises(TransientError, match="BadDigest"):
        path.write_bytes(b"damaged")
        s3.create_from(f"objects/00/{'0' * 64}", path)
    assert not path.exists() and not s3.exists(f"objects/00/{'0' * 64}")


def test_a_large_object_goes_in_pieces_and_has_one_winner(s3, seaweed, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket_module, "MULTIPART_BYTES", 1 << 20)
    monkeypatch.setattr(bucket_module, "CHUNK_BYTES", 5 << 20)
    data = os.urandom(11 << 20)
    key = put_part(s3, data)
    assert again(s3, tmp_path / "reader").local_path(key).read_bytes() == data
    with s3.temporary() as path:
        path.write_bytes(data)
        assert s3.bucket.upload(key, path) is False
    assert seaweed.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []


def test_copies_are_read_only_and_asked_for_once(s3, seaweed, tmp_path):
    key = put_part(s3, b"bytes")
    reader = again(s3, tmp_path / "reader")
    path = reader.local_path(key)
    assert path.stat().st_mode & 0o222 == 0
    seaweed.client().delete_object(**raw(s3, key))
    assert reader.local_path(key) == path and not reader.exists(key)


def test_the_cache_drops_what_was_unused_for_longest_but_nothing_of_the_last_hour(tmp_path):
    cache = Cache(tmp_path, ("objects",), CACHE_BYTES)
    for age, name in enumerate("abcd"):
        (tmp_path / "new").write_bytes(b"x" * 100)
        path = cache.put(f"objects/{name}", tmp_path / "new")
        os.utime(path, (0, time.time() - 3601 * (5 - age)))
    cache.get("objects/a")
    assert cache.trim(250) == 200
    assert sorted(p.name for p in (tmp_path / "objects").iterdir()) == ["a", "d"]
    cache.get("objects/d")
    assert cache.trim(0) == 0


def test_a_full_disk_is_told_and_loses_nothing(s3, tmp_path):
    """The cache is on a disk of 4 MiB."""
    with small_disk(tmp_path / "small", "4m") as small:
        large, little = put_part(s3, os.urandom(5 << 20)), put_part(s3, os.urandom(3 << 20))
        reader = again(s3, small)
        with pytest.raises(TransientError, match="no space is left in .*the disk is full.*FOUNDRY_STORE_CACHE"):
            reader.local_path(large)
        assert not list(reader.folder.glob("tmp/*")) and not (reader.folder / large).exists()
        held = reader.local_path(little)
        os.utime(held, (0, 0))
        assert reader.local_path(put_part(s3, os.urandom(3 << 20))).stat().st_size == 3 << 20
        assert not held.exists()
        assert s3.exists(large) and s3.exists(little)


def hold(store: S3Store, entered: threading.Event, leave: threading.Event) -> None:
    with store.alone("name"):
        entered.set()
        leave.wait()


def test_a_lease_is_kept_while_its_holder_lives_and_free_when_it_leaves(s3, tmp_path):
    entered, leave, second = threading.Event(), threading.Event(), threading.Event()
    one, two = again(s3, tmp_path / "one"), again(s3, tmp_path / "two")
    first = threading.Thread(target=hold, args=(one, entered, leave))
    first.start()
    assert entered.wait(30)
    other = threading.Thread(target=hold, args=(two, second, leave))
    other.start()
    assert not second.wait(2 * LEASE_S)
    leave.set()
    assert second.wait(30)
    first.join()
    other.join()
    assert not list(s3.keys("locks"))


def test_a_killed_holder_on_another_machine_lets_go_after_its_lease(s3, tmp_path):
    s3.create("locks/name", b'{"owner": "a machine that is gone"}')
    began = time.monotonic()
    with again(s3, tmp_path / "two").alone("name"):
        assert time.monotonic() - began >= LEASE_S


def test_a_killed_holder_on_this_machine_lets_go_at_once(s3, tmp_path):
    slow = again(s3, tmp_path / "here", lease_s=600)
    s3.create("locks/name", b'{"owner": "%s"}' % slow._holder.encode())
    with slow.alone("name"):
        assert list(s3.keys("locks")) == ["locks/name"]


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(tmp_path, monkeypatch):
    with running(tmp_path / "server") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = S3Store(server.address(), tmp_path / "caches", CACHE_BYTES)
        written: list[str] = []
        failed: list[TransientError] = []

        def write() -> None:
            for i in range(400):
                try:
                    store.create(f"versions/x/{i}.json", b"%d" % i)
                except TransientError as error:
                    failed.append(error)
                    return
                written.append(f"versions/x/{i}.json")

        writer = threading.Thread(target=write)
        writer.start()
        while len(written) < 20:
            assert writer.is_alive()
            time.sleep(0.01)
        server.kill()
        down = len(written)
        server.start()
        writer.join()
        assert down < 400 and not failed and len(written) == 400
        assert dict(store.read_all(written)) == {key: key.split("/")[-1][:-5].encode() for key in written}
        assert not any(store.create(key, b"again") for key in written[::7])
