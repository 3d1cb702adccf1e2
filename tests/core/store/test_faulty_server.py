"""Faults that a real server shows too rarely to wait for: a fake one, behind the real protocol, shows each."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.store import bucket as bucket_module
from pipeline_tasks.core.store import patience
from tests.fake_s3 import FakeS3, fake_servers

KEY = "objects/ab/of-a-test.safetensors"


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """Gives a bucket on a server with these faults, and that server's class."""
    with fake_servers(monkeypatch) as start:
        yield start


def test_a_file_is_sent_whole_again_after_a_conflict(faulty, tmp_path) -> None:
    def conflict(server: FakeS3, what: str) -> bool:
        if what == "PUT" and server.asked["PUT"] == 1:
            server.refuse(409, "ConditionalRequestConflict")
            return True
        return False

    bucket, server = faulty(conflict)
    data = b"what was written" * 500
    (tmp_path / "part").write_bytes(data)
    assert bucket.upload(KEY, tmp_path / "part", sha256=sha256(data).hexdigest())
    assert server.asked["PUT"] == 2 and [body for body, _ in server.objects.values()] == [data]


@pytest.mark.parametrize("read", ["get", "range", "download"])
def test_a_connection_that_breaks_within_the_bytes_is_made_again(faulty, tmp_path, read: str) -> None:
    data = b"x" * 5000

    def breaks(server: FakeS3, what: str) -> bool:
        if server.asked[what] <= 2:
            server.answer(200, data, cut=400, ETag='"e"', Content_Range=f"bytes 0-4999/{len(data)}")
        else:
            server.answer(200, data, ETag='"e"', Content_Range=f"bytes 0-4999/{len(data)}")
        return True

    bucket, server = faulty(breaks)
    if read == "get":
        assert bucket.get(KEY) == (data, '"e"')
    elif read == "range":
        assert bucket.get_range(KEY, 0, len(data)) == (data, len(data))
    else:
        assert bucket.download(KEY, tmp_path / "out") == sha256(data).hexdigest()
        assert (tmp_path / "out").read_bytes() == data
    assert server.asked["GET"] == 3


def test_one_that_always_breaks_is_told_in_the_end(faulty, monkeypatch) -> None:
    monkeypatch.setattr(patience, "ATTEMPTS", 3)
    bucket, server = faulty(lambda server, _: server.answer(200, b"x" * 5000, cut=400, ETag='"e"') is None)
    with pytest.raises(TransientError, match="connection broke"):
        bucket.get(KEY)
    assert server.asked["GET"] == 3


def test_a_range_behind_the_end_is_nothing(faulty) -> None:
    bucket, _ = faulty(lambda server, _: server.refuse(416, "InvalidRange") is None)
    assert bucket.get_range(KEY, 10, 20) is None


@pytest.mark.parametrize("ours", [True, False])
def test_an_upload_whose_end_was_answered_to_nobody_is_done(faulty, monkeypatch, tmp_path, ours: bool) -> None:
    monkeypatch.setattr(bucket_module, "MULTIPART_BYTES", 1 << 20)
    monkeypatch.setattr(bucket_module, "CHUNK_BYTES", 5 << 20)
    writers = []

    def lost(server: FakeS3, what: str) -> bool:
        if what == "start":
            writers.append(server.headers["x-amz-meta-writer"])
        elif what == "complete":
            server.hang_up() if server.asked[what] == 1 else server.refuse(404, "NoSuchUpload")
            return True
        elif what == "HEAD":
            writer = writers[0] if ours else "somebody else"
            server.answer(
                200, b"x", ETag='"e"', Last_Modified="Tue, 24 Nov 2026 10:00:00 GMT", x_amz_meta_writer=writer
            )
            return True
        elif what == "abandon":
            server.refuse(404, "NoSuchUpload")
            return True
        return False

    bucket, server = faulty(lost)
    (tmp_path / "large").write_bytes(b"x" * (6 << 20))
    if ours:
        assert bucket.upload(KEY, tmp_path / "large")
    else:
        with pytest.raises(TransientError, match="somebody ended this upload; try again"):
            bucket.upload(KEY, tmp_path / "large")
    assert server.asked["complete"] == 2


def test_a_certificate_that_nobody_signed_is_told_at_once(faulty, tmp_path) -> None:
    bucket, _ = faulty(lambda *_: False, self_signed(tmp_path))
    with pytest.raises(InputError, match="certificate is not trusted .*AWS_CA_BUNDLE"):
        bucket.get(KEY)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "broken"])
def test_a_file_of_certificates_that_cannot_be_read_is_told_at_once(faulty, tmp_path, monkeypatch, kind) -> None:
    bundle = tmp_path / "ca.pem"
    if kind == "folder":
        bundle.mkdir()
    elif kind != "missing":
        bundle.write_text("" if kind == "empty" else "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    bucket, _ = faulty(lambda *_: False, self_signed(tmp_path))
    with pytest.raises(InputError, match="certificate is not trusted .*AWS_CA_BUNDLE"):
        bucket.get(KEY)


def test_an_empty_variable_of_certificates_is_none(faulty, monkeypatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "")
    bucket, _ = faulty(lambda *_: False)
    assert bucket.get(KEY) == (b"", '"e"')


def self_signed(folder: Path) -> ssl.SSLContext:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
